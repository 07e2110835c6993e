//! Only tests: nocter's futures and its eventfd on tokio.
