//! Keys of operators and doors. A key is shown once and kept as a hash; whoever presents it may do what its scopes say. The
//! listeners of operators and doors check every call here; the command line makes and revokes.

use super::OrganiserError;
use crate::store::admin_key::{self, AdminKeyRow};
use crate::store::admin_log::{self, NewEntry};
use crate::store::{Store, StoreError};
use dashmap::DashMap;
use rand::RngExt;
use seatwire_proto::id::EventId;
use sha2::{Digest, Sha256};
use sqlx::PgExecutor;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

/// What a key begins with, so that it is recognised where it does not belong.
const PREFIX: &str = "swadm_";
/// Random bytes of a key: too many to guess, so a plain hash of them is enough.
const SECRET_BYTES: usize = 32;
/// Longest name of a key, in characters.
const MAX_NAME_CHARS: usize = 100;
/// Keys never seen to be good that are looked up at once: whoever tries keys gets no more of Postgres than this.
const LOOKUPS: usize = 4;
/// How long a look-up that found nothing keeps its place: with [`LOOKUPS`], 200 tries a second of all who try together. Those
/// who present a good key for the first time wait behind them, once.
const MISS_KEEPS: Duration = Duration::from_millis(20);
/// Longest wait for a place; then the caller is told to come back.
const PLACE_WITHIN: Duration = Duration::from_secs(1);
/// Keys remembered as good. There are as many as were made by hand; past it all are forgotten, and each is looked up
/// like a new one, once.
const MAX_KNOWN: usize = 4_096;

/// What a key may do. Each route of the listeners of operators and doors asks for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Look at everything.
    Read,
    /// Change events: prices, limits, times, states.
    Events,
    /// Block and unblock seats, append seats, change capacities.
    Inventory,
    /// Refund and correct orders, and say where what happens to them is sent.
    Orders,
    /// Steer the waiting room.
    Room,
    /// Admit tickets.
    Door,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Read, Self::Events, Self::Inventory, Self::Orders, Self::Room, Self::Door];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Events => "events",
            Self::Inventory => "inventory",
            Self::Orders => "orders",
            Self::Room => "room",
            Self::Door => "door",
        }
    }
}

impl FromStr for Scope {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let words = Self::ALL.map(Self::as_str).join(", ");
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| format!("expected one of {words}"))
    }
}

/// Who changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// The key used; `None` for the server itself.
    pub key: Option<Uuid>,
    /// Its name.
    pub name: String,
    scopes: Vec<Scope>,
}

impl Operator {
    /// The server itself, for what time or stock brings about.
    #[must_use]
    pub fn server() -> Self {
        Self { key: None, name: "server".into(), scopes: Vec::new() }
    }

    /// Writes down what was done with the key, in the transaction that does it.
    ///
    /// # Errors
    /// Postgres' own.
    pub async fn note(
        &self,
        executor: impl PgExecutor<'_>,
        action: &str,
        event: Option<EventId>,
        detail: serde_json::Value,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let entry = NewEntry { key: self.key, key_name: &self.name, action, event, detail };
        admin_log::insert(executor, &entry, now_ms).await
    }

    /// Whether the key may do this.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// A key just made: the only time its text is known.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its id, for revoking it.
    pub id: Uuid,
    /// The key itself.
    pub key: crate::config::Secret,
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Id and secret of a presented key.
fn parts(text: &str) -> Option<(Uuid, &str)> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    let is_hex = |text: &str, digits: usize| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex(id, 32) && is_hex(secret, 2 * SECRET_BYTES)).then_some(())?;
    Some((Uuid::parse_str(id).ok()?, secret))
}

/// Makes a key.
///
/// # Errors
/// `Refused` for a name or a set of scopes that will not do; Postgres' own.
pub async fn create(store: &Store, name: &str, scopes: &[Scope], now_ms: u64) -> Result<NewKey, OrganiserError> {
    if name.trim().is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        return Err(OrganiserError::refused("/name", format!("expected 1 to {MAX_NAME_CHARS} characters")));
    }
    if scopes.is_empty() {
        return Err(OrganiserError::refused("/scopes", "expected at least one"));
    }
    let mut scopes = scopes.to_vec();
    scopes.sort_unstable();
    scopes.dedup();
    let mut secret = [0u8; SECRET_BYTES];
    rand::rng().fill(&mut secret);
    let secret = hex::encode(secret);
    let row = AdminKeyRow {
        id: Uuid::now_v7(),
        name: name.trim().to_owned(),
        secret_hash: hash(&secret).to_vec(),
        scopes: scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        created_ms: now_ms,
        revoked_ms: None,
    };
    let mut transaction = crate::store::begin(store.pool()).await?;
    admin_key::insert(&mut *transaction, &row).await?;
    let detail = serde_json::json!({"key": row.id, "name": row.name, "scopes": row.scopes});
    let entry = NewEntry { key: None, key_name: "command line", action: "key.create", event: None, detail };
    admin_log::insert(&mut *transaction, &entry, now_ms).await?;
    transaction.commit().await?;
    let key = crate::config::Secret::new(format!("{PREFIX}{}_{secret}", row.id.simple()));
    Ok(NewKey { id: row.id, key })
}

/// Ends a key; `false` when no key of this id opened anything.
///
/// # Errors
/// Postgres' own.
pub async fn revoke(store: &Store, id: Uuid, now_ms: u64) -> Result<bool, StoreError> {
    let mut transaction = crate::store::begin(store.pool()).await?;
    let is_revoked = admin_key::revoke(&mut *transaction, id, now_ms).await?;
    if is_revoked {
        let detail = serde_json::json!({"key": id});
        let entry = NewEntry { key: None, key_name: "command line", action: "key.revoke", event: None, detail };
        admin_log::insert(&mut *transaction, &entry, now_ms).await?;
    }
    transaction.commit().await?;
    Ok(is_revoked)
}

/// Whose key this is; `None` for anything that opens nothing: no key, an edited one, a revoked one.
///
/// # Errors
/// Postgres' own: nobody is let in while it is down.
pub async fn verify(store: &Store, presented: &str) -> Result<Option<Operator>, StoreError> {
    let Some((id, secret)) = parts(presented) else { return Ok(None) };
    let Some(row) = admin_key::find(store.pool(), id).await? else { return Ok(None) };
    let is_same: bool = hash(secret).as_slice().ct_eq(&row.secret_hash).into();
    if !is_same || row.revoked_ms.is_some() {
        return Ok(None);
    }
    // A word of a later version is a scope this one does not have.
    let scopes = row.scopes.iter().filter_map(|word| word.parse().ok()).collect();
    Ok(Some(Operator { key: Some(row.id), name: row.name, scopes }))
}

/// What a presented key turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presented {
    /// A key that opens something.
    Good(Operator),
    /// No key, an edited one, a revoked one.
    False,
    /// Too many keys are being tried at once to look.
    Crowded,
}

/// The keys that were good once on this node. Such a key is asked of Postgres on every call, so that a revoked one opens
/// nothing at once; a secret that differs from the one known is false without asking; all others share a few places.
#[derive(Debug, Clone)]
pub struct Keyring {
    store: Store,
    known: Arc<DashMap<Uuid, [u8; 32]>>,
    places: Arc<Semaphore>,
}

impl Keyring {
    /// An empty one.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self { store, known: Arc::default(), places: Arc::new(Semaphore::new(LOOKUPS)) }
    }

    /// Whose key this is.
    ///
    /// # Errors
    /// Postgres' own: nobody is let in while it is down.
    pub async fn verify(&self, presented: &str) -> Result<Presented, StoreError> {
        let Some((id, secret)) = parts(presented) else { return Ok(Presented::False) };
        let presented_hash = hash(secret);
        // The secret of an id never changes.
        let known = self.known.get(&id).map(|known| bool::from(known.ct_eq(&presented_hash)));
        let place = match known {
            Some(true) => None,
            Some(false) => return Ok(Presented::False),
            None => match tokio::time::timeout(PLACE_WITHIN, Arc::clone(&self.places).acquire_owned()).await {
                Ok(place) => place.ok(),
                Err(_) => return Ok(Presented::Crowded),
            },
        };
        // On its own, since a caller who hangs up would otherwise break off the question, and give the place back early.
        let (store, presented) = (self.store.clone(), presented.to_owned());
        let (tell, told) = oneshot::channel();
        tokio::spawn(async move {
            let verified = verify(&store, &presented).await;
            let is_miss = matches!(verified, Ok(None));
            // Nobody may be listening any more.
            let _ = tell.send(verified);
            if is_miss && place.is_some() {
                tokio::time::sleep(MISS_KEEPS).await;
            }
            drop(place);
        });
        let Ok(verified) = told.await else { return Ok(Presented::Crowded) };
        let Some(operator) = verified? else {
            self.known.remove(&id);
            return Ok(Presented::False);
        };
        if known.is_none() {
            if self.known.len() >= MAX_KNOWN {
                self.known.clear();
            }
            self.known.insert(id, presented_hash);
        }
        Ok(Presented::Good(operator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_an_id_and_a_secret_and_nothing_else() {
        let id = Uuid::now_v7();
        let secret = "ab".repeat(SECRET_BYTES);
        assert_eq!(parts(&format!("swadm_{}_{secret}", id.simple())), Some((id, secret.as_str())));
        for bad in ["", "swadm_", "swadm__", &format!("{}_{secret}", id.simple()), &format!("swadm_{id}_{secret}")] {
            assert_eq!(parts(bad), None, "{bad:?}");
        }
        assert_eq!(parts(&format!("swadm_{}_{secret}0", id.simple())), None);
    }

    #[test]
    fn every_scope_has_a_word_that_reads_back() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        assert!("everything".parse::<Scope>().is_err());
    }
}
