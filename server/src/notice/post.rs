//! The way of a mail: an SMTP server by TLS, or without one a folder in which each mail is a file to look at.

use crate::config::NoticeConfig;
use anyhow::Context;
use lettre::transport::smtp;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWriteExt;

/// Longest wait for one answer of the SMTP server.
const SMTP_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest whole delivery: below the minute for which a mail is this node's.
const SEND_WITHIN: Duration = Duration::from_secs(45);
/// What a server says of an address that nobody lives at (RFC 3463, 3.2; RFC 7505): it will say so tomorrow as well. Every
/// other permanent answer may be about us (a password, a blocked network, a policy, a size) and is an operator's to mend,
/// so the mail waits: 550 and 554 alone say nothing of the address.
const NOBODY_THERE: [&str; 5] = ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"];

/// Mails hold codes that admit and links that open orders: nobody else on the machine reads them.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

#[derive(Debug, Clone)]
pub(super) enum Post {
    Smtp(AsyncSmtpTransport<Tokio1Executor>),
    Folder(PathBuf),
}

/// Why a mail is not on its way.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    /// Nobody lives at the address, or the mail cannot be written at all.
    #[error("refused: {0}")]
    Refused(String),
    /// Perhaps later.
    #[error("{0}")]
    Later(String),
}

impl From<smtp::Error> for PostError {
    fn from(error: smtp::Error) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        if error.is_permanent() && says_nobody(&text) { Self::Refused(text) } else { Self::Later(text) }
    }
}

/// Whether one of the codes stands in an answer.
fn says_nobody(answer: &str) -> bool {
    answer.split(|letter: char| !(letter.is_ascii_digit() || letter == '.')).any(|word| NOBODY_THERE.contains(&word))
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
                    tokio::fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE)).await?;
                    // Whole when it is there.
                    let (part, whole) = (folder.join(format!("{name}.part")), folder.join(format!("{name}.eml")));
                    let mut options = tokio::fs::OpenOptions::new();
                    let mut file = options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&part).await?;
                    // One that was there keeps the mode it had.
                    file.set_permissions(Permissions::from_mode(FILE_MODE)).await?;
                    file.write_all(&mail.formatted()).await?;
                    file.flush().await?;
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
    fn only_an_address_without_anybody_is_refused_for_good() {
        for gone in ["permanent error (550): 5.1.1 no such mailbox", "(550): 5.1.10 null MX", "556 5.1.2: no such host"]
        {
            assert!(says_nobody(gone), "{gone}");
        }
        for ours in [
            "permanent error (550): no such user here",
            "permanent error (554): 5.7.1 your network is blocked",
            "permanent error (550): 5.1.8 sender's address rejected",
            "permanent error (550): 5.7.1 see 15.1.1.2",
            "permanent error (552): 5.3.4 message too big",
        ] {
            assert!(!says_nobody(ours), "{ours}");
        }
    }

    #[tokio::test]
    async fn mails_in_a_folder_are_its_owners_alone() {
        let folder = std::env::temp_dir().join(format!("seatwire-post-{}", std::process::id()));
        // As an earlier version left them.
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("ours");
        std::fs::write(folder.join("1.part"), "half").expect("a file");
        std::fs::set_permissions(folder.join("1.part"), Permissions::from_mode(0o644)).expect("ours");
        let post = Post::Folder(folder.clone());
        for name in ["1", "2"] {
            let mail = Message::builder().from("a@example.org".parse().expect("an address"));
            let mail = mail.to("b@example.org".parse().expect("an address")).body("x".to_owned()).expect("a mail");
            post.send(name, mail).await.expect("kept");
        }
        let mode = |path: PathBuf| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
        let modes = [folder.clone(), folder.join("1.eml"), folder.join("2.eml")].map(mode);
        assert!(std::fs::read_to_string(folder.join("1.eml")).expect("a mail").contains("b@example.org"));
        std::fs::remove_dir_all(&folder).expect("ours");
        assert_eq!(modes, [0o700, 0o600, 0o600]);
    }

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
