//! What a client hears: replies (answers with the same id) and pushes (the server speaks by itself), and the objects in them.
//! Each file below stands beside the commands it answers in `client`. Over HTTP the same objects travel without the envelope.

mod event;
mod hold;
mod order;
mod push;
mod reply;
mod session;
mod waitlist;

pub use event::{
    Event, EventArea, EventSection, EventState, EventSummary, OrphanRule, Performer, PriceTier, Rules, SalesMode, Venue,
};
pub use hold::{Hold, HoldBestReply, HoldReply, Line, UnlockReply, UnlockedAllocation};
pub use order::{Action, Decline, Order, OrderReply, OrderState, Ticket, TicketState};
pub use push::{Push, hold_update_text};
pub use reply::{ErrorObject, Reply};
pub use session::{Budget, HelloReply, PingReply, SubscribeReply};
pub use waitlist::{WaitlistPlace, WaitlistReply, WaitlistState};
