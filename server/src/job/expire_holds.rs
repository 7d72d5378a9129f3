//! Ends holds whose time has come, on the events this node has touched, and tells their owners; also 60 s and 15 s
//! before. Any number of nodes may run it: the script decides who ends what.

use crate::app::App;
use crate::inventory::HoldRecord;
use seatwire_proto::server::Push;

pub(super) async fn run(app: &App) -> anyhow::Result<()> {
    for (event, may_have_holds) in app.inventory.touched_events() {
        if !may_have_holds {
            continue;
        }
        let swept = app.inventory.sweep(&event).await?;
        let now_ms = app.inventory.now_ms();
        let wire = |hold: &HoldRecord| hold.to_wire(&event, now_ms);
        for hold in &swept.expired {
            app.sender.to_identity(hold.identity, &Push::HoldExpired { hold: wire(hold) }).await;
            app.sender.to_identity(hold.identity, &Push::HoldUpdate { id: hold.id, hold: None }).await;
        }
        for hold in &swept.expiring {
            app.sender.to_identity(hold.identity, &Push::HoldExpiring { hold: wire(hold) }).await;
        }
    }
    Ok(())
}
