//! The way of a mail: an SMTP server by TLS, or without one a folder in which each mail is a file to look at.

use crate::config::NoticeConfig;
use anyhow::Context;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for the SMTP server.
const SMTP_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
pub(super) enum Post {
    Smtp(AsyncSmtpTransport<Tokio1Executor>),
    Folder(PathBuf),
}

impl Post {
    pub(super) fn new(config: &NoticeConfig) -> anyhow::Result<Self> {
        match &config.smtp_url {
            Some(url) => {
                let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(url.reveal())
                    .context("SEATWIRE_SMTP_URL: expected smtps://user:password@host or smtp://host?tls=required")?
                    .timeout(Some(SMTP_TIMEOUT))
                    .build();
                Ok(Self::Smtp(transport))
            }
            None => Ok(Self::Folder(config.mail_folder.clone())),
        }
    }

    /// Brings a mail on its way. `name` tells it apart in a folder.
    pub(super) async fn send(&self, name: &str, mail: Message) -> anyhow::Result<()> {
        match self {
            Self::Smtp(transport) => {
                transport.send(mail).await?;
            }
            Self::Folder(folder) => {
                tokio::fs::create_dir_all(folder).await?;
                // Whole when it is there.
                let (part, whole) = (folder.join(format!("{name}.part")), folder.join(format!("{name}.eml")));
                tokio::fs::write(&part, mail.formatted()).await?;
                tokio::fs::rename(&part, &whole).await?;
            }
        }
        Ok(())
    }
}
