//! What others are told, besides pushes: mails to buyers and webhooks to organisers. Steps of the till write what is owed in
//! the transaction of its cause (`checkout/owe`); jobs send it: `mail` composes in the buyer's language, `post` brings it to an SMTP
//! server or into a folder, `hook` signs and delivers by the Standard Webhooks specification.

mod deliver;
mod forget;
pub mod hook;
mod mail;
mod page;
mod post;
mod text;

use crate::catalogue::Catalogue;
use crate::checkout::Checkout;
use crate::clock::Clock;
use crate::config::NoticeConfig;
use crate::outbound::{Outbound, Reach};
use crate::store::Store;
use post::Post;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub use hook::{HookError, NewHook, server_of};
pub use post::is_address;

/// The room's handle; cheap to clone.
#[derive(Debug, Clone)]
pub struct Notices {
    config: NoticeConfig,
    public_url: String,
    store: Store,
    catalogue: Catalogue,
    checkout: Checkout,
    clock: Clock,
    post: Post,
    outbound: Outbound,
    mails_late_ms: Arc<AtomicU64>,
}

impl Notices {
    /// The room on these others.
    ///
    /// # Errors
    /// When the way out cannot be set up: an SMTP address that is none, a folder that cannot be made.
    pub fn new(
        config: NoticeConfig,
        public_url: String,
        store: Store,
        catalogue: Catalogue,
        checkout: Checkout,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let reach = if config.may_call_private { Reach::Anywhere } else { Reach::Public };
        Ok(Self {
            post: Post::new(&config)?,
            outbound: Outbound::new(reach)?,
            config,
            public_url,
            store,
            catalogue,
            checkout,
            clock,
            mails_late_ms: Arc::default(),
        })
    }
}
