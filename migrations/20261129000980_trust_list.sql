-- An event of the provider's own list was asked for by us: what it says needs no second question.
alter table webhook_inbox add column is_from_list boolean not null default false;
