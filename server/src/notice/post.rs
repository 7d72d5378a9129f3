//! The way of a mail: an SMTP server by TLS, or without one a folder in which each mail is a file to look at.

use crate::config::NoticeConfig;
use anyhow::Context;
use lettre::transport::smtp;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait for one answer of the SMTP server.
const SMTP_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest whole delivery: below the minute for which a mail is this node's.
const SEND_WITHIN: Duration = Duration::from_secs(45);
/// Answers to a person's address or to the mail itself (RFC 5321, 4.2.3) that will not be others tomorrow. Those to us, such
/// as a wrong password, are an operator's to mend, and the mail waits.
const REFUSALS: [u16; 7] = [550, 551, 552, 553, 554, 555, 556];

#[derive(Debug, Clone)]
pub(super) enum Post {
    Smtp(AsyncSmtpTransport<Tokio1Executor>),
    Folder(PathBuf),
}

/// Why a mail is not on its way.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    /// The server will never take it.
    #[error("refused: {0}")]
    Refused(String),
    /// Perhaps later.
    #[error("{0}")]
    Later(String),
}

impl From<smtp::Error> for PostError {
    fn from(error: smtp::Error) -> Self {
        let is_refusal = error.status().is_some_and(|code| REFUSALS.contains(&u16::from(code)));
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        if is_refusal { Self::Refused(text) } else { Self::Later(text) }
    }
}

/// Whether a mail can be addressed so: to one person, at a domain of the internet. Asked before anything is sold or passed
/// on to whoever lives there.
#[must_use]
pub fn is_address(text: &str) -> bool {
    !text.contains(|letter: char| letter.is_whitespace() || letter.is_control())
        && text.parse::<Address>().is_ok_and(|address| address.domain().contains('.'))
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
    pub(super) async fn send(&self, name: &str, mail: Message) -> Result<(), PostError> {
        match self {
            Self::Smtp(transport) => match tokio::time::timeout(SEND_WITHIN, transport.send(mail)).await {
                Ok(sent) => sent.map(drop)?,
                Err(_) => return Err(PostError::Later("the server says nothing".into())),
            },
            Self::Folder(folder) => {
                let kept = async {
                    tokio::fs::create_dir_all(folder).await?;
                    // Whole when it is there.
                    let (part, whole) = (folder.join(format!("{name}.part")), folder.join(format!("{name}.eml")));
                    tokio::fs::write(&part, mail.formatted()).await?;
                    tokio::fs::rename(&part, &whole).await
                };
                kept.await.map_err(|error| PostError::Later(error.to_string()))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_persons() {
        for good in ["bob@example.org", "b.o+b@mail.example.org", "bob@b\u{fc}cher.example", "o'b@x.io"] {
            assert!(is_address(good), "{good}");
        }
        for bad in [
            "",
            "@",
            "bob",
            "bob@",
            "@b.cd",
            "bob@b",
            "b@c.d, evil@x.y",
            "a b@c.de",
            "a..b@c.de",
            "a@b..de",
            "a@b.de\n",
        ] {
            assert!(!is_address(bad), "{bad:?}");
        }
    }
}
