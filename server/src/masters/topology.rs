//! Asks a cluster which master serves which slots: any member that says that the cluster is well. One connection, moved to
//! another member when its own does not answer.

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ServerConfig};
use fred::types::{Builder, ClusterHash, CustomCommand, Value};
use std::time::Duration;

/// Longest wait for a member to say what it knows; a dead one must not hide who took its place.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);

/// Slots that one master serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) first: u16,
    pub(super) last: u16,
    /// `host:port`.
    pub(super) master: String,
}

/// Where a cluster can be asked.
#[derive(Debug)]
pub(super) struct Topology {
    /// Names, passwords and TLS as the URL says.
    config: Config,
    seeds: Vec<String>,
    /// Who is asked, and its address.
    asked: tokio::sync::Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    member: Option<(String, Client)>,
    /// Replicas named last: the only ones who know more when all known masters are gone.
    replicas: Vec<String>,
}

pub(super) fn no_answer(address: &str) -> Error {
    Error::new(ErrorKind::Timeout, format!("{address} does not answer"))
}

impl Topology {
    /// `None` for the URL of one Redis.
    pub(super) fn parse(url: &str) -> Result<Option<Self>, Error> {
        let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| scheme.ends_with("-cluster")) else {
            return Ok(None);
        };
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (user, hosts) = rest.rsplit_once('@').map_or(("", rest), |(user, hosts)| (user, hosts));
        let mut hosts = hosts.trim_end_matches('/').split(',').map(str::trim);
        let first = hosts.next().unwrap_or_default();
        let nodes: Vec<String> = hosts.map(|host| format!("node={host}")).chain(query.map(str::to_owned)).collect();
        let at = if user.is_empty() { "" } else { "@" };
        let config = Config::from_url(&format!("{scheme}://{user}{at}{first}?{}", nodes.join("&")))?;
        let ServerConfig::Clustered { hosts, .. } = &config.server else {
            return Err(Error::new(ErrorKind::Config, "not the URL of a cluster"));
        };
        let seeds = hosts.iter().map(|server| format!("{}:{}", server.host, server.port)).collect();
        Ok(Some(Self { config, seeds, asked: tokio::sync::Mutex::default() }))
    }

    /// How to connect to one member.
    pub(super) fn config_of(&self, address: &str) -> Result<Config, Error> {
        let (host, port) = address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)))
            .ok_or_else(|| Error::new(ErrorKind::Config, format!("{address} is no address")))?;
        Ok(Config { server: ServerConfig::new_centralized(host, port), ..self.config.clone() })
    }

    /// Who serves what, in the order of slots.
    pub(super) async fn ask(&self, masters: &[String]) -> Result<Vec<Shard>, Error> {
        let mut asked = self.asked.lock().await;
        let mut failed = None;
        if let Some((address, client)) = &asked.member {
            match ask_one(address, client).await {
                Ok((shards, replicas)) => {
                    asked.replicas = replicas;
                    return Ok(shards);
                }
                Err(error) => failed = Some(error),
            }
        }
        if let Some((_, client)) = asked.member.take() {
            tokio::spawn(async move { client.quit().await });
        }
        let mut others: Vec<&String> = masters.iter().chain(&self.seeds).collect();
        let replicas = asked.replicas.clone();
        others.extend(&replicas);
        for address in others {
            match self.connect(address).await {
                Ok((client, shards, replicas)) => {
                    asked.member = Some((address.clone(), client));
                    asked.replicas = replicas;
                    return Ok(shards);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| Error::new(ErrorKind::Config, "no member of the cluster is known")))
    }

    async fn connect(&self, address: &str) -> Result<(Client, Vec<Shard>, Vec<String>), Error> {
        let client = Builder::from_config(self.config_of(address)?)
            .with_performance_config(|performance| performance.default_command_timeout = ASK_TIMEOUT)
            .with_connection_config(|connection| {
                connection.max_command_attempts = 1;
                connection.connection_timeout = ASK_TIMEOUT;
                connection.internal_command_timeout = ASK_TIMEOUT;
            })
            .build()?;
        let answer = async {
            client.init().await?;
            ask_one(address, &client).await
        };
        let answer = tokio::time::timeout(2 * ASK_TIMEOUT, answer).await.unwrap_or_else(|_| Err(no_answer(address)));
        match answer {
            Ok((shards, replicas)) => Ok((client, shards, replicas)),
            Err(error) => {
                tokio::spawn(async move { client.quit().await });
                Err(error)
            }
        }
    }
}

/// Masters with their slots, and replicas.
async fn ask_one(address: &str, client: &Client) -> Result<(Vec<Shard>, Vec<String>), Error> {
    let cluster = || CustomCommand::new_static("CLUSTER", ClusterHash::Random, false);
    let info: String = client.custom(cluster(), vec!["INFO"]).await?;
    // A member that was cut off knows only what was.
    if !info.contains("cluster_state:ok") {
        return Err(Error::new(ErrorKind::Cluster, format!("{address} says that the cluster is not well")));
    }
    let slots: Value = client.custom(cluster(), vec!["SLOTS"]).await?;
    read_slots(address, slots).ok_or_else(|| Error::new(ErrorKind::Protocol, format!("odd CLUSTER SLOTS of {address}")))
}

/// Reads `[first, last, [host, port, ..], [replica's host, port, ..], ..]` a range; an empty host is the one asked.
fn read_slots(asked: &str, slots: Value) -> Option<(Vec<Shard>, Vec<String>)> {
    let (mut shards, mut replicas) = (Vec::new(), Vec::new());
    let asked_host = asked.rsplit_once(':')?.0;
    let Value::Array(ranges) = slots else { return None };
    for range in ranges {
        let Value::Array(parts) = range else { return None };
        let slot = |n: usize| {
            let slot = parts.get(n).and_then(Value::as_u64)?;
            u16::try_from(slot).ok().filter(|slot| usize::from(*slot) < super::SLOTS)
        };
        let mut members = parts.iter().skip(2).filter_map(|member| {
            let Value::Array(member) = member else { return None };
            let host = member.first().and_then(Value::as_string).filter(|host| !host.is_empty() && host != "?");
            let port = member.get(1).and_then(Value::as_u64)?;
            Some(format!("{}:{port}", host.as_deref().unwrap_or(asked_host)))
        });
        let (first, last) = (slot(0)?, slot(1)?);
        if first > last {
            return None;
        }
        shards.push(Shard { first, last, master: members.next()? });
        replicas.extend(members);
    }
    shards.sort_by_key(|shard| shard.first);
    Some((shards, replicas))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_any_of_its_members() {
        let seeds = |url: &str| Topology::parse(url).expect("reads").map(|topology| topology.seeds);
        let mut named = seeds("redis-cluster://a:7000,b:7001,c:7002").expect("a cluster");
        named.sort();
        assert_eq!(named, ["a:7000", "b:7001", "c:7002"]);
        let mut named = seeds("redis-cluster://user:secret@a:7000?node=b:7001").expect("a cluster");
        named.sort();
        assert_eq!(named, ["a:7000", "b:7001"]);
        assert_eq!(seeds("redis://a:7000"), None);
        assert_eq!(seeds("redis+unix:///run/redis.sock"), None);
        assert!(Topology::parse("redis-cluster://a:port").is_err());
    }

    #[test]
    fn passwords_go_to_every_member() {
        let topology = Topology::parse("redis-cluster://user:secret@a:7000,b:7001").expect("reads").expect("a cluster");
        let config = topology.config_of("b:7001").expect("an address");
        assert_eq!((config.username.as_deref(), config.password.as_deref()), (Some("user"), Some("secret")));
    }

    #[test]
    fn ranges_are_read_with_masters_first_and_odd_ones_refused() {
        let text = |text: &str| Value::from(text);
        let member = |host: &str, port: i64| Value::Array(vec![text(host), Value::from(port), text("id")]);
        let range = |first: i64, last: i64| {
            let ends = vec![Value::from(first), Value::from(last)];
            Value::Array(ends.into_iter().chain([member("", 7000), member("r", 7003)]).collect())
        };
        let read = read_slots("a:7001", Value::Array(vec![range(5, 16383), range(0, 4)])).expect("reads");
        let shard = |first, last| Shard { first, last, master: "a:7000".into() };
        assert_eq!(read, (vec![shard(0, 4), shard(5, 16383)], vec!["r:7003".to_owned(); 2]));
        assert_eq!(read_slots("a:7001", Value::Array(vec![range(5, 16384)])), None);
        assert_eq!(read_slots("a:7001", Value::Array(vec![range(5, 4)])), None);
        assert_eq!(read_slots("a:7001", Value::Null), None);
    }
}
