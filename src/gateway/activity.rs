//! Notes that a lease did something.
//!
//! A stream sets a flag; whoever asks takes it. A lease without an open stream and without a set flag costs
//! nothing, because its entry is dropped when it is next asked for.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::control::message::LeaseId;

/// Notes of all leases that have streams, or had since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Activity {
    notes: Mutex<BTreeMap<LeaseId, Arc<Note>>>,
}

/// One lease's note.
#[derive(Debug, Default)]
pub(super) struct Note {
    moved: AtomicBool,
    running: AtomicUsize,
}

/// As long as it lives, its lease is active.
#[derive(Debug)]
pub(super) struct Running<'a>(&'a Note);

impl Activity {
    /// The note of this lease.
    pub(super) fn of(&self, lease: &LeaseId) -> Arc<Note> {
        let mut notes = self.notes.lock().expect("nobody panics while holding the notes");
        notes.entry(lease.clone()).or_default().clone()
    }

    /// The leases that did something since this was last asked, and those in which something runs.
    pub(super) fn take(&self) -> Vec<LeaseId> {
        let mut active = Vec::new();
        let mut notes = self.notes.lock().expect("nobody panics while holding the notes");
        notes.retain(|lease, note| {
            let moved = note.moved.swap(false, Ordering::Relaxed);
            if moved || note.running.load(Ordering::Relaxed) > 0 {
                active.push(lease.clone());
            }
            Arc::strong_count(note) > 1
        });
        active
    }
}

impl Note {
    /// Something runs from here on.
    pub(super) fn running(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(self)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.moved.store(true, Ordering::Relaxed);
    }
}

/// A stream that notes each byte in either direction.
#[derive(Debug)]
pub(super) struct Noted<S> {
    inner: S,
    note: Arc<Note>,
}

impl<S> Noted<S> {
    pub(super) fn new(inner: S, note: Arc<Note>) -> Noted<S> {
        Noted { inner, note }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.note.moved.store(true, Ordering::Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.note.moved.store(true, Ordering::Relaxed);
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activity_is_taken_once_and_what_runs_is_always_active() {
        let activity = Activity::default();
        let lease = LeaseId("a".into());
        let note = activity.of(&lease);
        assert!(activity.take().is_empty(), "an open stream without bytes is no activity");
        note.moved.store(true, Ordering::Relaxed);
        assert_eq!(activity.take(), std::slice::from_ref(&lease));
        assert!(activity.take().is_empty());
        let running = note.running();
        assert_eq!((activity.take(), activity.take()), (vec![lease.clone()], vec![lease.clone()]));
        drop(running);
        assert_eq!(activity.take(), [lease], "its end is activity too");
        drop(note);
        activity.take();
        assert!(activity.notes.lock().unwrap().is_empty(), "nothing is kept of a lease without streams");
    }
}
