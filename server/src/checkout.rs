//! The till: a hold becomes an order, money moves, tickets come out. `order` says what can follow what.
