//! Who the embedded servers run as. Postgres refuses root, and nothing here needs it: started as root, the servers
//! drop to an unprivileged user. `home` asks who that is; `guard` and `postgres` apply it to a command.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::EmbeddedError;

/// Users to drop to, the best first: both are on every Debian-like machine that has Postgres.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// An unprivileged user and its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Owner {
    /// Whom to drop to: nobody else when not root; otherwise whoever owns `existing`, or the first candidate.
    pub(super) fn needed(existing: &Path) -> Result<Option<Owner>, EmbeddedError> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        if let Ok(found) = fs::metadata(existing)
            && found.uid() != 0
        {
            return Ok(Some(Owner { uid: found.uid(), gid: found.gid() }));
        }
        let users =
            fs::read_to_string("/etc/passwd").map_err(EmbeddedError::file("reading", Path::new("/etc/passwd")))?;
        let owner = CANDIDATES.iter().find_map(|name| Owner::named(&users, name));
        owner.map(Some).ok_or(EmbeddedError::NoOwner)
    }

    fn named(users: &str, name: &str) -> Option<Owner> {
        let mut fields = users.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
        let owner = Owner { uid: fields.nth(2)?.parse().ok()?, gid: fields.next()?.parse().ok()? };
        (owner.uid != 0).then_some(owner)
    }

    /// The command will run as this user, without any supplementary group.
    pub(super) fn apply(&self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid);
    }

    /// Hands one folder over.
    pub(super) fn take(&self, folder: &Path) -> Result<(), EmbeddedError> {
        chown(folder, Some(self.uid), Some(self.gid)).map_err(EmbeddedError::file("changing the owner of", folder))
    }

    /// Whether this user may walk down to `folder`, judged by the permission bits of every folder above it.
    pub(super) fn reaches(&self, folder: &Path) -> bool {
        folder.ancestors().all(|step| {
            let Ok(found) = fs::metadata(step) else { return false };
            let walk = if found.uid() == self.uid {
                0o100
            } else if found.gid() == self.gid {
                0o010
            } else {
                0o001
            };
            found.mode() & walk != 0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\npostgres:x:108:116:,,,:/var/lib/postgresql:/bin/bash\n";

    #[test]
    fn a_named_user_is_read_from_the_user_list() {
        assert_eq!(Owner::named(USERS, "postgres"), Some(Owner { uid: 108, gid: 116 }));
        assert_eq!(Owner::named(USERS, "nobody"), None);
    }

    #[test]
    fn root_is_never_an_owner() {
        assert_eq!(Owner::named(USERS, "root"), None);
    }
}
