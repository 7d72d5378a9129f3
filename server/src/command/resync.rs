//! `resync`: where the frames of a viewer who lost its place begin again.

use crate::error;
use seatwire_proto::client::{FieldError, Position, Resync};
use seatwire_proto::server::ErrorObject;

/// The position to catch up from; seq 0, or an epoch that is not the current one, means a snapshot.
pub(crate) const fn begin_at(body: &Resync, current: Position) -> Position {
    let is_known = body.epoch == current.epoch;
    Position { epoch: current.epoch, seq: if is_known { body.seq } else { 0 } }
}

/// The channel is none of this session.
pub(crate) fn no_such_channel() -> ErrorObject {
    error::bad_field(&FieldError::new("/channel", "not subscribed"))
}
