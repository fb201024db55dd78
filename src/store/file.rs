//! The file: how it is opened, what it looks like inside, and what becomes of a broken one.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, DEFAULT_NAME, ErrorCode, FileControl, OpenFlags, OptionalExtension, ffi};

use super::clock::Moment;
use super::read::Found;

/// The file's name in its folder; SQLite keeps a log and an index beside it.
const FILE: &str = "stoker.db";

/// An operator who looks with `sqlite3` holds a lock for milliseconds.
const BUSY: Duration = Duration::from_secs(1);

/// Each makes the next version out of the one before; the file's `user_version` counts them. Only ever added to, also by
/// an empty one where a row may have a new word in it (`end`): a program that does not know the word refuses the file
/// instead of taking the row for damaged, and ending what it speaks of.
pub(super) const MIGRATIONS: [&str; 5] = [
    "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE lease (
        id TEXT PRIMARY KEY, pool TEXT NOT NULL, tenant TEXT NOT NULL, class TEXT NOT NULL,
        state TEXT NOT NULL, reason TEXT, instance TEXT, ended INTEGER NOT NULL,
        number INTEGER NOT NULL, boot TEXT NOT NULL, at_ns INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
        version INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE INDEX lease_ended ON lease (wall_ms) WHERE ended = 1;
    CREATE TABLE instance (
        id TEXT PRIMARY KEY, pool TEXT NOT NULL, template TEXT NOT NULL, state TEXT NOT NULL,
        number INTEGER NOT NULL, boot TEXT NOT NULL, at_ns INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
        version INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE TABLE drain (
        id TEXT PRIMARY KEY,
        number INTEGER NOT NULL, boot TEXT NOT NULL, at_ns INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
        version INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE TABLE aside (
        wall_ms INTEGER NOT NULL, kind TEXT NOT NULL, id TEXT, why TEXT NOT NULL, body TEXT);
",
    "",
    "
    CREATE TABLE envelope (
        id TEXT PRIMARY KEY, template TEXT NOT NULL,
        number INTEGER NOT NULL, boot TEXT NOT NULL, at_ns INTEGER NOT NULL, wall_ms INTEGER NOT NULL,
        version INTEGER NOT NULL, body TEXT NOT NULL);
",
    "",
    "",
];

/// The open file.
#[derive(Debug)]
pub struct Store {
    pub(super) connection: Connection,
    path: PathBuf,
    /// Where a broken file was moved that was found in its place.
    pub set_aside: Option<PathBuf>,
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Its folder cannot be made, or not kept to its owner.
    #[error("cannot keep state in `{path}`")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file cannot be opened, read or written.
    #[error("cannot use `{path}`")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The disk has no room to open it with: SQLite needs some 32 KiB beside the file.
    #[error("cannot use `{path}`, its disk has no room: make some, then start again")]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// It is broken.
    #[error("`{path}` is damaged: the next start of stokerd moves it aside and begins an empty one")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A broken file cannot be moved out of the way.
    #[error("`{path}` is damaged, and cannot be moved aside")]
    Stuck {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was written by a newer program.
    #[error(
        "`{path}` is of version {found}, and this program knows {known}: use the newer program, or move it away"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// Ours.
        known: usize,
    },
    /// It belongs to another host.
    #[error(
        "`{path}` is of host `{found}`, and this is `{host}`: where the machine was renamed, set `name = \"{found}\"` of \
         [host] in the profile; of two hosts give each its own folder"
    )]
    OtherHost {
        /// The file.
        path: PathBuf,
        /// Its host.
        found: String,
        /// Ours.
        host: String,
    },
}

impl StoreError {
    fn of(path: &Path, source: rusqlite::Error) -> StoreError {
        let path = path.to_owned();
        // The index beside the file cannot be made as large as it must be.
        let no_index = |error: &ffi::Error| {
            [ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_SHMMAP].contains(&error.extended_code)
        };
        if is_damage(&source) {
            StoreError::Damaged { path, source }
        } else if is_full(&source) || source.sqlite_error().is_some_and(no_index) {
            StoreError::NoRoom { path, source }
        } else {
            StoreError::Sqlite { path, source }
        }
    }
}

impl Store {
    /// Opens the store in this folder for this host, and makes what is missing. `stamp` tells a broken file that is
    /// moved aside from others.
    ///
    /// # Errors
    /// When there can be none; a broken file is no error.
    pub fn open(folder: &Path, host: &str, stamp: i64) -> Result<Store, StoreError> {
        let refused = |source| StoreError::Folder { path: folder.to_owned(), source };
        make_folder(folder).map_err(refused)?;
        match Store::open_sound(folder, host) {
            Err(StoreError::Damaged { .. }) => Store::begin_anew(folder, host, stamp),
            opened => opened,
        }
    }

    /// Opens the store that is in this folder and does not mend it.
    ///
    /// # Errors
    /// When it cannot be opened; also when it is broken.
    pub fn open_sound(folder: &Path, host: &str) -> Result<Store, StoreError> {
        let path = folder.join(FILE);
        let store = Store { connection: open(&path)?, path, set_aside: None };
        store.claim(host)?;
        Ok(store)
    }

    /// Opens the store in this folder and reads all of it. What only shows that it is broken when it is read is moved
    /// aside as well.
    ///
    /// # Errors
    /// When there can be none; a broken file is no error.
    pub fn recall(folder: &Path, host: &str, now: &Moment) -> Result<(Store, Found), StoreError> {
        Store::open(folder, host, now.wall_ms)?.read_or_begin_anew(folder, host, now)
    }

    pub(super) fn read_or_begin_anew(
        mut self,
        folder: &Path,
        host: &str,
        now: &Moment,
    ) -> Result<(Store, Found), StoreError> {
        match self.read(now) {
            Err(StoreError::Damaged { .. }) => {
                drop(self);
                let mut store = Store::begin_anew(folder, host, now.wall_ms)?;
                let found = store.read(now)?;
                Ok((store, found))
            }
            read => Ok((self, read?)),
        }
    }

    /// Moves a broken file out of the way, and begins an empty one.
    fn begin_anew(folder: &Path, host: &str, stamp: i64) -> Result<Store, StoreError> {
        let aside = move_aside(&folder.join(FILE), stamp)?;
        Ok(Store { set_aside: Some(aside), ..Store::open_sound(folder, host)? })
    }

    /// The host whose state is in this folder; `None` where there is none.
    ///
    /// # Errors
    /// When there is a file that is broken.
    pub fn host_of(folder: &Path) -> Result<Option<String>, StoreError> {
        let path = folder.join(FILE);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let read = Connection::open_with_flags(&path, flags).and_then(|connection| {
            connection.busy_timeout(BUSY)?;
            connection.query_row(HOST, [], |row| row.get(0))
        });
        match read {
            Ok(host) => Ok(Some(host)),
            Err(error) if is_damage(&error) => Err(StoreError::of(&path, error)),
            Err(_) => Ok(None),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn failed(&self, source: rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, source)
    }

    fn claim(&self, host: &str) -> Result<(), StoreError> {
        let failed = |source| self.failed(source);
        let found: Option<String> =
            self.connection.query_row(HOST, [], |row| row.get(0)).optional().map_err(failed)?;
        match found {
            Some(found) if found != host => {
                Err(StoreError::OtherHost { path: self.path.clone(), found, host: host.to_owned() })
            }
            Some(_) => Ok(()),
            None => {
                let claimed = self.connection.execute("INSERT INTO meta VALUES ('host', ?1)", [host]);
                claimed.map(drop).map_err(failed)
            }
        }
    }
}

const HOST: &str = "SELECT value FROM meta WHERE name = 'host'";

/// Makes the folder where it is not there; nobody but its owner looks into it.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Opens a file that reads from end to end, at our version.
fn open(path: &Path) -> Result<Connection, StoreError> {
    let failed = |source| StoreError::of(path, source);
    let connection = Connection::open(path).map_err(failed)?;
    prepare(&connection).map_err(failed)?;
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let Some(missing) = usize::try_from(found).ok().and_then(|found| MIGRATIONS.get(found..)) else {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: MIGRATIONS.len() });
    };
    if !missing.is_empty() {
        let version = MIGRATIONS.len();
        let steps = missing.concat();
        let whole = format!("BEGIN IMMEDIATE; {steps} PRAGMA user_version = {version}; COMMIT;");
        connection.execute_batch(&whole).map_err(failed)?;
    }
    Ok(connection)
}

/// How the file is used; the reasons are in the room's own text.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    // The first to read the file, so the first to find that it is none.
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    // Log and index stay when it is closed: the next one begins with their blocks where the disk is full by then.
    let mut stay = 1;
    connection.file_control(DEFAULT_NAME, FileControl::PersistWal(&mut stay))?;
    // The writer moves the log into the file itself, when nobody waits.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // In KiB: the live rows fit, and the daemon stays small.
    connection.pragma_update(None, "cache_size", -512)?;
    let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if sound == "ok" { Ok(()) } else { Err(damage(sound)) }
}

fn damage(why: String) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), Some(why))
}

pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Moves the file and what SQLite keeps beside it out of the way.
fn move_aside(path: &Path, stamp: i64) -> Result<PathBuf, StoreError> {
    let beside = |end: &str| PathBuf::from(format!("{}{end}", path.display()));
    let aside = beside(&format!(".damaged-{stamp}"));
    let stuck = |source| StoreError::Stuck { path: path.to_owned(), source };
    fs::rename(path, &aside).map_err(stuck)?;
    for end in ["-wal", "-shm"] {
        match fs::rename(beside(end), format!("{}{end}", aside.display())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(stuck(error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(aside)
}
