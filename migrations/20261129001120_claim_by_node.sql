-- Which node runs a command: what a node that has died left claimed is free before the claim's own time is over.
alter table order_commands add column node uuid;
