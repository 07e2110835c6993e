"""The layer below the classes: the library and its version, statuses as exceptions, handles, waits."""

import ctypes
import importlib
import math
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import nocter
from nocter import _errors, _executor, _native
from nocter._ffi import ffi
from nocter._native import lib

ROOT = Path(__file__).resolve().parents[2]
HEADERS = sorted((ROOT / "capi" / "include").rglob("*.h"))


def test_bnd_01_generated_layers_are_fresh():
    result = subprocess.run([ROOT / "bindings" / "generate", "--check"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_bnd_01_check_notices_a_change(tmp_path):
    """The same tree with one more function in its header is stale, and the difference names it."""
    layers = ("bindings/python/nocter/_ffi.py", "bindings/python/nocter/_ffi.pyi", "bindings/rust/rustfmt.toml")
    for part in ("bindings/generate", *layers):
        (tmp_path / part).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / part).write_bytes((ROOT / part).read_bytes())
    for header in HEADERS:
        copy = tmp_path / header.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(header.read_bytes())
    base = tmp_path / "capi/include/nocter/base.h"
    first = "typedef struct nocter_text {"
    base.write_text(base.read_text().replace(first, f"void nocter_x(void);\n{first}"))
    result = subprocess.run([sys.executable, tmp_path / "bindings/generate", "--check"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "+# void nocter_x(void);" in result.stdout


def test_bnd_01_every_function_of_the_headers_can_be_called():
    text = "".join(header.read_text() for header in HEADERS)
    names = set(re.findall(r"^NOCTER_API[^;(]*?\b(nocter_\w+)\(", text, re.MULTILINE))
    assert len(names) > 40
    assert names == {name for name in dir(lib) if name.startswith("nocter_")}
    for name in names:
        assert getattr(lib, name)


def test_bnd_03_layouts_of_the_executor_are_those_of_the_header():
    assert ctypes.sizeof(_executor._JobId) == ffi.sizeof("nocter_job_id")
    assert ctypes.sizeof(_executor._Ticket) == ffi.sizeof("nocter_job_id") + ffi.sizeof("nocter_owned")
    assert _executor._Ticket.drop.offset - _executor._Ticket.token.offset == ffi.offsetof("nocter_owned", "drop")
    for name in ("deadline_ns", "interrupt", "flags", "reserved"):
        assert getattr(_executor._Wait, name).offset == ffi.offsetof("nocter_wait", name)
    assert _executor._JobId.sequence.offset == ffi.offsetof("nocter_job_id", "sequence")


def test_bnd_03_counts_have_every_field_of_the_header():
    theirs = [name for name, _ in ffi.typeof("nocter_blocking_counts").fields]
    ours = list(nocter.Counts.__dataclass_fields__)
    assert [name for name in theirs if name not in ("size", "reserved")] == ours


def test_bnd_03_every_status_has_its_exception():
    names = ffi.typeof("enum nocter_status_code").relements
    statuses = {name: getattr(lib, name) for name in names}
    assert len(statuses) == 27
    for name, status in statuses.items():
        problem = _errors.error(status)
        assert isinstance(problem, nocter.Error) and problem.status == status
        assert name in str(problem)
    kinds = {type(_errors.error(status)) for status in statuses.values()}
    public = {value for value in vars(nocter).values() if isinstance(value, type) and issubclass(value, nocter.Error)}
    assert kinds == public


def test_bnd_03_exceptions_are_also_what_the_standard_library_calls_them():
    assert issubclass(nocter.Timeout, TimeoutError)
    assert issubclass(nocter.ArgumentError, ValueError)
    assert issubclass(nocter.OutOfMemory, MemoryError)
    assert issubclass(nocter.Closed, RuntimeError)
    for kind in (nocter.Empty, nocter.Pending):
        assert issubclass(kind, nocter.Timeout)


def test_bnd_03_exceptions_carry_the_words_of_the_library_and_survive_pickling():
    with pytest.raises(nocter.ArgumentError) as caught:
        nocter.Blocking(maximum_jobs=1, workers=2)
    assert caught.value.status == lib.NOCTER_E_ARGUMENT
    assert "workers" in str(caught.value) and "NOCTER_E_ARGUMENT" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is nocter.ArgumentError
    assert again.status == caught.value.status and str(again) == str(caught.value)


def test_bnd_03_public_names_say_where_they_are():
    for name in nocter.__all__:
        value = getattr(nocter, name)
        if isinstance(value, type):
            assert value.__module__ == "nocter", name
            assert value.__doc__, name


def test_bnd_03_versions_that_fit():
    fits = _native._fits
    assert fits(0x000100, 0x000100) and fits(0x000100, 0x000107) and fits(0x000107, 0x000100)
    assert not fits(0x000100, 0x000200) and not fits(0x000200, 0x000100) and not fits(0x000100, 0x010000)
    assert fits(0x010200, 0x010300) and not fits(0x010300, 0x010200) and not fits(0x010000, 0x020000)


def test_bnd_03_another_version_is_refused_and_both_are_named(tmp_path, python):
    source = tmp_path / "other.c"
    source.write_text("unsigned nocter_version_number(void) { return 0x000900; }\n")
    library = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    process = python("import nocter", NOCTER_LIBRARY=str(library))
    assert process.returncode == 1
    assert "ImportError" in process.err and "nocter 0.9.0" in process.err and "nocter 0.1.0" in process.err


def test_bnd_03_a_library_that_is_missing_or_not_ours_is_named(python):
    missing = python("import nocter", NOCTER_LIBRARY="/nonexistent/libnocter.so.0")
    assert missing.returncode == 1 and "ImportError" in missing.err and "/nonexistent/libnocter.so.0" in missing.err
    other = python("import nocter", NOCTER_LIBRARY="libc.so.6")
    assert other.returncode == 1 and "ImportError" in other.err and "libc.so.6" in other.err


def test_bnd_03_a_bundled_library_is_found(tmp_path, python):
    package = tmp_path / "nocter"
    package.mkdir()
    for file in Path(nocter.__file__).parent.iterdir():
        if file.is_file():
            (package / file.name).write_bytes(file.read_bytes())
    (package / "_lib").mkdir()
    (package / "_lib" / "libnocter.so.0").write_bytes(Path(nocter.library_path).read_bytes())
    process = python("import nocter; print(nocter.library_path)", NOCTER_LIBRARY="", PYTHONPATH=str(tmp_path))
    assert process.returncode == 0, process.err
    assert process.out.strip() == str(package / "_lib" / "libnocter.so.0")


def test_ffi_10_a_subinterpreter_is_refused(python):
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    importlib.import_module(name)
    process = python(
        f"""
        import {name} as interpreters
        import nocter
        other = interpreters.create()
        try:
            problem = interpreters.run_string(other, "import nocter")
        except Exception as raised:
            problem = raised
        assert "nocter cannot be used in a subinterpreter" in str(problem), problem
        with nocter.Executor(1) as executor:
            print(executor.submit(pow, 2, 5).result())
        interpreters.destroy(other)
        """
    )
    assert (process.returncode, process.out.strip()) == (0, "32"), process.err


HANDLES = [nocter.Interrupt, nocter.EventFd, nocter.Signal, nocter.Blocking, nocter.Retirement, nocter.Keyed]


@pytest.mark.parametrize("kind", HANDLES)
def test_bnd_03_handles_are_context_managers_and_refuse_use_after_close(kind):
    with kind() as handle:
        assert not handle.closed and "closed" not in repr(handle)
    assert handle.closed and repr(handle) == f"<nocter.{kind.__name__} closed>"
    handle.close()
    with pytest.raises(ValueError, match="closed"):
        with handle:
            pass
    for name in ("raise_", "clear", "fileno", "publish", "epoch", "count", "shutdown"):
        if hasattr(kind, name):
            with pytest.raises(ValueError, match="closed"):
                getattr(handle, name)()


def test_bnd_03_reprs_say_what_matters():
    interrupt, eventfd, signal = nocter.Interrupt(), nocter.EventFd(), nocter.Signal()
    assert repr(interrupt) == "<nocter.Interrupt not raised>"
    interrupt.raise_()
    assert repr(interrupt) == "<nocter.Interrupt raised>"
    assert repr(eventfd) == f"<nocter.EventFd fd={eventfd.fileno()}>"
    assert repr(signal) == f"<nocter.Signal version={signal.version}>"


def test_sig_waits_end_by_publish_timeout_interrupt_and_shutdown(wait_for):
    signal, interrupt = nocter.Signal(), nocter.Interrupt()
    seen = signal.version
    with pytest.raises(nocter.Pending):
        signal.wait(seen, timeout=0)
    started = time.monotonic()
    with pytest.raises(nocter.Timeout) as caught:
        signal.wait(seen, timeout=0.05)
    assert caught.value.status == lib.NOCTER_TIMEOUT and 0.05 <= time.monotonic() - started < 5
    published = signal.publish()
    assert published != seen and signal.wait(seen) == published == signal.version
    interrupt.raise_()
    with pytest.raises(nocter.Interrupted):
        signal.wait(published, interrupt=interrupt)
    assert interrupt.raised
    interrupt.clear()
    assert not interrupt.raised
    with pytest.raises(nocter.Timeout):
        signal.wait(published, timeout=0.01, interrupt=interrupt)
    signal.shutdown()
    with pytest.raises(nocter.Closed):
        signal.wait(signal.version)
    with pytest.raises(nocter.Closed):
        signal.publish()
    assert signal.version == published
    with pytest.raises(nocter.ArgumentError):
        nocter.Signal().wait(12345)


def test_sig_s_1_no_wake_is_lost_between_two_threads():
    """Each side publishes and waits for the other: a lost wake would be a timeout."""
    one, two, rounds = nocter.Signal(), nocter.Signal(), 500
    base_one, base_two = one.version, two.version

    def answer():
        for index in range(rounds):
            one.wait(base_one + index, timeout=20)
            two.publish()

    thread = threading.Thread(target=answer)
    thread.start()
    for index in range(rounds):
        one.publish()
        two.wait(base_two + index, timeout=20)
    thread.join()
    assert (one.version, two.version) == (base_one + rounds, base_two + rounds)


def test_gen_07_a_wait_longer_than_a_slice_keeps_its_own_deadline():
    started = time.monotonic()
    with pytest.raises(nocter.Timeout):
        nocter.Signal().wait(nocter.Signal().version, timeout=1.3)
    assert 1.3 <= time.monotonic() - started < 6


def test_gen_07_timeouts_of_every_kind(wait_for):
    signal = nocter.Signal()
    with pytest.raises(ValueError, match="timeout"):
        signal.wait(signal.version, timeout=math.nan)
    for timeout in (0, 0.0, -1, -math.inf):
        with pytest.raises(nocter.Pending):
            signal.wait(signal.version, timeout=timeout)
    for timeout in (math.inf, 1e300, None):
        seen, woken = signal.version, []
        thread = threading.Thread(target=lambda: woken.append(signal.wait(seen, timeout=timeout)))
        thread.start()
        time.sleep(0.02)
        assert not woken
        signal.publish()
        thread.join(10)
        assert woken == [signal.version]


def test_gen_07_close_ends_the_waits_of_other_threads():
    for make, wait in (
        (nocter.Signal, lambda handle: handle.wait(handle.version)),
        (nocter.Blocking, lambda handle: handle.claim()),
        (nocter.Blocking, lambda handle: handle.wait_epoch(handle.epoch())),
    ):
        handle, ended = make(), []

        def run():
            try:
                wait(handle)
            except nocter.Closed as problem:
                ended.append(problem)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.05)
        handle.close()
        thread.join(10)
        assert len(ended) == 1


def test_bnd_03_interrupt_may_be_raised_by_another_thread():
    interrupt, service, ended = nocter.Interrupt(), nocter.Blocking(), []

    def run():
        try:
            service.claim(interrupt=interrupt)
        except nocter.Interrupted:
            ended.append(time.monotonic())

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.05)
    started = time.monotonic()
    interrupt.raise_()
    thread.join(10)
    assert len(ended) == 1 and ended[0] - started < 0.9
