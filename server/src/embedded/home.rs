//! The folders of the embedded servers: the data folder with its lock and logs, and a short private folder for the
//! sockets, whose paths may hold 107 bytes at most. `embedded` comes in here; `postgres` and `redis` live in it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::owner::Owner;
use super::{EmbeddedError, Urls};

/// Held for as long as the servers are ours; the system lets go of it when we die, however we die.
const LOCK_FILE: &str = "embedded.lock";
/// Says where the servers answer, for commands run beside the server.
const RECORD_FILE: &str = "embedded.json";
/// Where the servers live when the data folder is closed to the user they run as.
const SYSTEM_FOLDER: &str = "/var/lib/seatwire";
/// Parent of the socket folder. Not XDG_RUNTIME_DIR: that one vanishes when the user logs out, under a server left
/// running.
const SOCKET_PARENT: &str = "/tmp";
/// Characters of the data folder's hash in names: 48 bits tell the data folders of one machine apart.
const HASH_CHARS: usize = 12;
/// Tries for the lock, `LOCK_PAUSE` apart: a restart may overlap the last moments of the one before.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);
/// A log larger than this is put aside (one predecessor is kept) when its server starts.
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// The folders, held under the lock for as long as this lives.
#[derive(Debug)]
pub(super) struct Home {
    data: PathBuf,
    pub(super) servers: PathBuf,
    pub(super) sockets: PathBuf,
    pub(super) owner: Option<Owner>,
    lock: File,
}

#[derive(Serialize, Deserialize)]
struct Record {
    pid: u32,
    sockets: PathBuf,
    urls: Urls,
}

impl Home {
    /// Makes what is missing, takes the lock, checks that everything is ours.
    pub(super) async fn open(data: &Path) -> Result<Home, EmbeddedError> {
        let as_root = rustix::process::geteuid().is_root();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(if as_root { 0o755 } else { 0o700 })
            .create(data)
            .map_err(EmbeddedError::file("making", data))?;
        let data = fs::canonicalize(data).map_err(EmbeddedError::file("resolving", data))?;
        if !as_root {
            must_be_ours(&data)?;
        }
        let lock = take_lock(&data).await?;

        let hash = hex::encode(Sha256::digest(data.as_os_str().as_bytes()));
        let name = &hash[..HASH_CHARS];
        let owner = Owner::needed(&data.join("postgres"))?;
        let servers = match &owner {
            Some(owner) if !owner.reaches(&data) => {
                let servers = Path::new(SYSTEM_FOLDER).join(name);
                tracing::info!(data = %data.display(), servers = %servers.display(),
                    "started as root on a data folder that others cannot enter: the servers' files are kept elsewhere");
                servers
            }
            _ => data.clone(),
        };
        let home =
            Home { sockets: Path::new(SOCKET_PARENT).join(format!("seatwire-{name}")), data, servers, owner, lock };
        fs::create_dir_all(&home.servers).map_err(EmbeddedError::file("making", &home.servers))?;
        let logs = home.data.join("log");
        fs::create_dir_all(&logs).map_err(EmbeddedError::file("making", &logs))?;
        home.own_folder(&home.redis())?;
        home.open_socket_folder()?;
        Ok(home)
    }

    /// The database folder; made by initdb.
    pub(super) fn postgres(&self) -> PathBuf {
        self.servers.join("postgres")
    }

    /// Redis's working folder.
    pub(super) fn redis(&self) -> PathBuf {
        self.servers.join("redis")
    }

    /// The log file of a server.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.data.join("log").join(format!("{name}.log"))
    }

    /// Makes a folder that only the owner of the servers can enter.
    pub(super) fn own_folder(&self, folder: &Path) -> Result<(), EmbeddedError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(EmbeddedError::file("making", folder))?;
        match &self.owner {
            Some(owner) => owner.take(folder),
            None => must_be_ours(folder),
        }
    }

    /// Anyone may make folders in the parent, so what is there already is only taken when it is a plain folder,
    /// ours, and closed to others.
    fn open_socket_folder(&self) -> Result<(), EmbeddedError> {
        if let Ok(found) = fs::symlink_metadata(&self.sockets) {
            let me = rustix::process::geteuid().as_raw();
            let expected = self.owner.as_ref().map_or(me, |owner| owner.uid);
            let private = found.permissions().mode() & 0o077 == 0;
            if !found.is_dir() || !private || (found.uid() != expected && found.uid() != me) {
                return Err(EmbeddedError::UnsafeSocketFolder { path: self.sockets.clone() });
            }
        }
        self.own_folder(&self.sockets)
    }

    /// Writes down where the servers answer.
    pub(super) fn record(&self, urls: &Urls) -> Result<(), EmbeddedError> {
        // Aside first: whoever finds the file finds all of it.
        let path = self.data.join(RECORD_FILE).with_extension("new");
        let record = Record { pid: std::process::id(), sockets: self.sockets.clone(), urls: urls.clone() };
        let text = serde_json::to_vec(&record).expect("strings and a number are always JSON");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&path).and_then(|mut file| file.write_all(&text));
        let written = written.and_then(|()| fs::rename(&path, self.data.join(RECORD_FILE)));
        written.map_err(EmbeddedError::file("writing", &path))
    }

    /// The servers are stopped: nothing to attach to any more. Lets go of the lock.
    pub(super) fn close(self) {
        // Both are only left-overs when this fails, and the next start copes with left-overs.
        let _ = fs::remove_file(self.data.join(RECORD_FILE));
        let _ = fs::remove_dir_all(&self.sockets);
        drop(self.lock);
    }
}

/// What a running process wrote down about its servers on `data`.
pub(super) fn recorded(data: &Path) -> Option<(Urls, PathBuf)> {
    let text = fs::read(data.join(RECORD_FILE)).ok()?;
    let record: Record = serde_json::from_slice(&text).ok()?;
    Some((record.urls, record.sockets))
}

/// Opens a log for appending, and puts a large one aside first.
pub(super) fn open_log(path: &Path) -> Result<File, EmbeddedError> {
    if fs::metadata(path).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
        fs::rename(path, path.with_extension("log.1")).map_err(EmbeddedError::file("putting aside", path))?;
    }
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    opened.map_err(EmbeddedError::file("opening", path))
}

async fn take_lock(data: &Path) -> Result<File, EmbeddedError> {
    let path = data.join(LOCK_FILE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).map_err(EmbeddedError::file("opening", &path))?;
    for attempt in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if attempt < LOCK_TRIES => tokio::time::sleep(LOCK_PAUSE).await,
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message; an unreadable lock file is just as taken.
                let _ = file.read_to_string(&mut pid);
                return Err(EmbeddedError::InUse { data: data.to_path_buf(), pid: pid.trim().to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(EmbeddedError::file("locking", &path)(source)),
        }
    }
    let note = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    note.map_err(EmbeddedError::file("writing", &path))?;
    Ok(file)
}

fn must_be_ours(folder: &Path) -> Result<(), EmbeddedError> {
    let uid = fs::metadata(folder).map_err(EmbeddedError::file("looking at", folder))?.uid();
    if uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(EmbeddedError::ForeignFolder { path: folder.to_path_buf(), uid })
}
