//! One file of the kernel: opened once, read in one piece, never more than its bound.
//!
//! A kernel file is made anew for each read from its start, so one read is one moment; two reads of parts
//! would be parts of two moments. A text that does not end with its line was cut, and is refused: half a
//! number is a number too.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::control::message::{Read, Unread};

/// The largest text that is read; cgroup files and meminfo have 1 to 5 KiB.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// `/proc/stat` grows with processors and interrupt lines: some 100 bytes for each of one, 2 for each of the other.
pub(super) const STAT_MAX: usize = 1 << 20;

const _: () = assert!(PAGE_START < TEXT_MAX && TEXT_MAX < STAT_MAX);

/// Holds every cgroup file as kernels write them, so that the page rarely grows.
const PAGE_START: usize = 16 << 10;

/// Where texts are read into: one for all files, growing to the largest bound at most.
#[derive(Debug)]
pub(super) struct Page(Vec<u8>);

impl Page {
    pub(super) fn new() -> Page {
        Page(vec![0; PAGE_START])
    }
}

/// A file that is open.
#[derive(Debug)]
pub(super) struct Kept {
    name: &'static str,
    most: usize,
    file: File,
}

impl Kept {
    /// Opens `dir/name`, of which at most `most` bytes will be read.
    pub(super) fn open(dir: &Path, name: &'static str, most: usize) -> io::Result<Kept> {
        Ok(Kept { name, most, file: File::open(dir.join(name))? })
    }

    /// What the file says at this moment: whole lines, at least one.
    pub(super) fn read<'page>(&self, page: &'page mut Page) -> Read<&'page str> {
        let length = loop {
            match self.file.read_at(&mut page.0, 0) {
                // The kernel fills what it is given; less than that is all there is.
                Ok(length) if length < page.0.len() => break length,
                Ok(length) if length > self.most => return Err(self.unread(self.too_large())),
                Ok(length) => page.0.resize(length.saturating_mul(2), 0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        };
        if length > self.most {
            return Err(self.unread(self.too_large()));
        }
        let text = page.0.get(..length).unwrap_or_default();
        let text = std::str::from_utf8(text).map_err(|_| self.unread("it is no text"))?;
        match text.ends_with('\n') {
            true => Ok(text),
            false => Err(self.unread("it is empty or cut short")),
        }
    }

    /// This file could not be used, and why.
    pub(super) fn unread(&self, why: impl fmt::Display) -> Unread {
        unread(self.name, why)
    }

    fn too_large(&self) -> String {
        format!("it is larger than {} KiB", self.most >> 10)
    }

    fn failed(&self, error: &io::Error) -> Unread {
        // An open file outlives its cgroup; the kernel then has no device behind it.
        match error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) {
            true => Unread(format!("gone: the cgroup of `{}` was removed", self.name)),
            false => self.unread(error),
        }
    }
}

/// A file of `/proc` that always should be there: opened when first needed, and again after it failed.
#[derive(Debug)]
pub(super) struct Standing {
    dir: PathBuf,
    name: &'static str,
    most: usize,
    kept: Option<Kept>,
}

impl Standing {
    pub(super) fn new(dir: &Path, name: &'static str, most: usize) -> Standing {
        Standing { dir: dir.to_owned(), name, most, kept: None }
    }

    /// What `parse` makes of what the file says at this moment; its error says what was wrong.
    pub(super) fn read<T>(
        &mut self,
        page: &mut Page,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Read<T> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => Kept::open(&self.dir, self.name, self.most).map_err(|error| unread(self.name, error))?,
        };
        let value = parse(kept.read(page)?).map_err(|why| kept.unread(why))?;
        self.kept = Some(kept);
        Ok(value)
    }
}

/// The file of this name could not be used, and why.
pub(super) fn unread(name: &str, why: impl fmt::Display) -> Unread {
    Unread(format!("cannot read `{name}`: {why}"))
}
