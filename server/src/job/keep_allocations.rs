//! Brings what organisers say of allocations to Redis: seats kept for a code, and given back when it is closed. Looks at
//! the events this node has touched; doing it twice, or on several nodes, is doing it once.

use crate::app::App;

pub(super) async fn run(app: &App) -> anyhow::Result<()> {
    let mut failed = None;
    for (known, _) in app.inventory.touched_events() {
        let event = match app.catalogue.event(known.id).await {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = app.inventory.keep_allocations(&event).await {
            failed = Some(error);
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
