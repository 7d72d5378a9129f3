//! Seatwire's rooms in walking order.
