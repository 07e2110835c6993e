//! Finds libnocter: in `NOCTER_LIB_DIR` when that is set, else through pkg-config.
//!
//! What is named on purpose wins over what happens to be installed. No rpath is written: where a library that lies
//! outside of the system's folders is found at run time is up to who runs the program (`LD_LIBRARY_PATH`).
//! Crates that depend on this one read the folder of the headers from `DEP_NOCTER_INCLUDE`.

use std::env;
use std::process::{exit, Command};

/// The library versions whose ABI these declarations describe; before 1.0 every minor version may break it.
const WANTED: [&str; 2] = ["nocter >= 0.1.0", "nocter < 0.2.0"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for name in [
        "DOCS_RS",
        "NOCTER_INCLUDE_DIR",
        "NOCTER_LIB_DIR",
        "PKG_CONFIG",
        "PKG_CONFIG_LIBDIR",
        "PKG_CONFIG_PATH",
        "PKG_CONFIG_SYSROOT_DIR",
    ] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("DOCS_RS").is_some() {
        return;
    }
    if let Some(folder) = named("NOCTER_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=dylib=nocter");
        if let Some(include) = named("NOCTER_INCLUDE_DIR") {
            println!("cargo:include={include}");
        }
        return;
    }
    if let Err(reason) = probe() {
        eprintln!("libnocter was not found: {reason}");
        eprintln!("Install its development files where pkg-config sees them (PKG_CONFIG_PATH),");
        eprintln!("or set NOCTER_LIB_DIR to the folder of libnocter.so.");
        exit(1);
    }
}

/// An environment variable that is set to something.
fn named(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Asks pkg-config and passes on what it says.
fn probe() -> Result<(), String> {
    let mut wanted = vec!["--print-errors", "--exists"];
    wanted.extend(WANTED);
    pkg_config(&wanted)?;
    for flag in words(&pkg_config(&["--libs", "nocter"])?) {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
    }
    let include = pkg_config(&["--variable=includedir", "nocter"])?;
    println!("cargo:include={}", include.trim_end());
    Ok(())
}

fn pkg_config(arguments: &[&str]) -> Result<String, String> {
    let program = named("PKG_CONFIG").unwrap_or_else(|| "pkg-config".to_string());
    let output =
        Command::new(&program).args(arguments).output().map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {arguments:?}: {}", said.trim_end()))
    }
}

/// Splits what pkg-config prints: at white space that no backslash guards.
fn words(line: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => all.last_mut().unwrap().extend(characters.next()),
            _ if character.is_whitespace() => all.push(String::new()),
            _ => all.last_mut().unwrap().push(character),
        }
    }
    all.retain(|word| !word.is_empty());
    all
}
