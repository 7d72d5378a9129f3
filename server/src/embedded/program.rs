//! Finds `postgres`, `initdb` and `redis-server`. `embedded` comes in first, before any folder is made, so that a
//! missing program costs nothing but one clear line.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::EmbeddedError;

/// The oldest Postgres the migrations are written for.
const POSTGRES_NEEDED: u32 = 14;
/// The oldest Redis the scripts are written for.
const REDIS_NEEDED: u32 = 7;

/// Folders with one folder per installed Postgres version in them: Debian; RPM systems; Homebrew on ARM and Intel.
const VERSIONED: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
];
/// Folders that a service manager's PATH may leave out.
const PLAIN: [&str; 5] = ["/opt/homebrew/bin", "/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"];

/// One installation of Postgres.
#[derive(Debug, Clone)]
pub(super) struct PostgresPrograms {
    pub(super) postgres: PathBuf,
    pub(super) initdb: PathBuf,
    major: u32,
}

/// PATH first, then the usual install folders, newest version first.
pub(super) fn usual_places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    for (folder, prefix) in VERSIONED {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        let mut versions: Vec<(u32, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let major = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
                Some((major, entry.path().join("bin")))
            })
            .collect();
        versions.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
        places.extend(versions.into_iter().map(|(_, folder)| folder));
    }
    places.extend(PLAIN.iter().map(PathBuf::from));
    places
}

/// Every usable Postgres in `search`, in order; at least one.
pub(super) fn find_postgres(search: &[PathBuf]) -> Result<Vec<PostgresPrograms>, EmbeddedError> {
    let missing = |program| EmbeddedError::ProgramMissing { program, debian: "postgresql", homebrew: "postgresql" };
    let first = executables(search, "postgres").next().ok_or_else(|| missing("postgres"))?;
    let pairs = executables(search, "postgres").filter_map(|postgres| {
        // The neighbour of the real file: a link on PATH may stand alone.
        let beside = fs::canonicalize(&postgres).ok()?.with_file_name("initdb");
        let initdb = [beside, postgres.with_file_name("initdb")].into_iter().find(|file| is_executable(file))?;
        Some(PostgresPrograms { major: major_version(&postgres)?, postgres, initdb })
    });
    let all: Vec<_> = pairs.collect();
    let newest = all.iter().map(|programs| programs.major).max().ok_or_else(|| missing("initdb"))?;
    let usable: Vec<_> = all.into_iter().filter(|programs| programs.major >= POSTGRES_NEEDED).collect();
    if usable.is_empty() {
        return Err(EmbeddedError::ProgramTooOld {
            program: "postgres",
            path: first,
            found: newest,
            needed: POSTGRES_NEEDED,
        });
    }
    Ok(usable)
}

/// The Postgres to run on `database`: the one that made it, or the first when there is none yet.
pub(super) fn choose_postgres(
    candidates: Vec<PostgresPrograms>,
    database: &Path,
) -> Result<PostgresPrograms, EmbeddedError> {
    let made_by: Option<u32> =
        fs::read_to_string(database.join("PG_VERSION")).ok().and_then(|version| version.trim().parse().ok());
    let chosen = candidates.into_iter().find(|programs| made_by.is_none_or(|major| major == programs.major));
    chosen.ok_or_else(|| EmbeddedError::OtherPostgres { data: database.to_path_buf(), made_by: made_by.unwrap_or(0) })
}

/// The Redis to run; Valkey speaks the same and will do.
pub(super) fn find_redis(search: &[PathBuf]) -> Result<PathBuf, EmbeddedError> {
    let missing = EmbeddedError::ProgramMissing { program: "redis-server", debian: "redis-server", homebrew: "redis" };
    let path = executables(search, "redis-server").chain(executables(search, "valkey-server")).next().ok_or(missing)?;
    match major_version(&path) {
        Some(found) if found < REDIS_NEEDED => {
            Err(EmbeddedError::ProgramTooOld { program: "redis-server", path, found, needed: REDIS_NEEDED })
        }
        _ => Ok(path),
    }
}

fn executables<'a>(search: &'a [PathBuf], name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    search.iter().map(move |folder| folder.join(name)).filter(|file| file.is_absolute() && is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn major_version(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("--version").output().ok()?;
    parse_major(&String::from_utf8_lossy(&output.stdout))
}

/// `postgres (PostgreSQL) 15.13 (Debian ..)` is 15, `Redis server v=7.0.15 sha=..` is 7.
fn parse_major(banner: &str) -> Option<u32> {
    let word = banner
        .split_whitespace()
        .find(|word| word.trim_start_matches("v=").starts_with(|c: char| c.is_ascii_digit()))?;
    let digits: String = word.trim_start_matches("v=").chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_each_banner() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.13 (Debian 15.13-0+deb12u1)"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 17beta1"), Some(17));
        assert_eq!(parse_major("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64"), Some(7));
        assert_eq!(parse_major("nonsense"), None);
    }

    #[test]
    fn the_postgres_that_made_the_database_is_chosen() {
        let made = |major| PostgresPrograms { postgres: PathBuf::new(), initdb: PathBuf::new(), major };
        let folder = std::env::temp_dir().join(format!("seatwire-version-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a temporary folder can be made");
        assert_eq!(choose_postgres(vec![made(17), made(15)], &folder).expect("any will do").major, 17);
        fs::write(folder.join("PG_VERSION"), "15\n").expect("the version file can be written");
        assert_eq!(choose_postgres(vec![made(17), made(15)], &folder).expect("15 is there").major, 15);
        let refused = choose_postgres(vec![made(17)], &folder).expect_err("15 is not there");
        assert!(refused.to_string().contains("PostgreSQL 15"), "{refused}");
        fs::remove_dir_all(&folder).expect("the temporary folder can be removed");
    }
}
