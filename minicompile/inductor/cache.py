"""The on-disk cache: files named by the content that made them.

Goes in: a key (a hash of everything that decides the result) and bytes.  Comes out: a path, or None: a miss.  Files
are written to a temporary name and renamed; each ends with the digest of its own content, so that a damaged entry is
a miss and is never loaded; the directory is private to its owner (0700), else it is not used; the oldest files go
when it grows too large. Mirrors `torch/_inductor/codecache.py`.  Taught in chapter 11.
"""

import functools
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

import torch

from .. import config, record

VERSION = 1  # of the generated code: raise it when code generation changes in a way that the key does not see
_MARK = b"minicompile-sha256:"


@functools.cache
def environment():
    """What every key depends on: versions, and the processor that `-march=native` means."""
    try:
        info = Path("/proc/cpuinfo").read_text()
        processor = sorted({line for line in info.splitlines() if line.startswith(("flags", "Features", "model name"))})
    except OSError:
        processor = []
    return f"{VERSION} {torch.__version__} {sys.version} {sys.platform} {processor}"


def key_of(*parts):
    return hashlib.sha256("\0".join([environment(), *map(str, parts)]).encode()).hexdigest()[:40]


def _private(path):
    """Make the directory if needed.  True when it is ours alone."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        info = os.lstat(path)
    except OSError:
        return False
    ours = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077
    return ours and os.access(path, os.W_OK)


@functools.cache
def _temporary():
    return Path(tempfile.mkdtemp(prefix="minicompile-"))


def directory():
    """The cache's directory; one of this process alone when the configured one cannot be trusted or caching is off."""
    if not config.force_disable_caches:
        path = Path(config.cache_dir)
        if _private(path):
            return path
        record.warn_once(f"minicompile: cache directory {path} is not private to you (0700) or not writable; not used")
    return _temporary()


def seal(content):
    """Content with its digest at the end (the loader of a shared library ignores what follows)."""
    return content + _MARK + hashlib.sha256(content).hexdigest().encode()


def unseal(sealed):
    """The content, or None when it is not what was written."""
    content, digest = sealed[: -64 - len(_MARK)], sealed[-64:]
    whole = sealed[-64 - len(_MARK) : -64] == _MARK and hashlib.sha256(content).hexdigest().encode() == digest
    return content if whole else None


def get(name):
    """The path of an intact entry, or None."""
    path = directory() / name
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.getuid() or unseal(path.read_bytes()) is None:
            return None
        os.utime(path)
    except OSError:
        return None
    return path


def put(name, content):
    """Write an entry; other processes see all of it or nothing.  Returns its path."""
    path = directory() / name
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(seal(content))
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _trim(path.parent)
    return path


def _trim(path):
    """Delete the files that were used longest ago while the cache is too large."""
    files = []
    for entry in os.scandir(path):
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue  # another process deleted it
        files.append((info.st_mtime, info.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, name in sorted(files):
        if total <= config.cache_size_limit_mb << 20:
            break
        Path(name).unlink(missing_ok=True)
        total -= size
