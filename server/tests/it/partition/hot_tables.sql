-- The hot tables, HASH-partitioned by event: every table, constraint, index and trigger of the migrated schema again, by
-- their own definitions. The plain tables move to the schema `plain`; the partitions stand in schemas of their own, so that
-- their indexes can have the names of the schema's rules: Postgres names the partition's index when a rule is broken.
-- A unique rule without event_id gets it in front: in a partitioned table it holds within an event.
create schema plain;
do $$
declare
    hot text;
    rule record;
    child record;
    definition text;
begin
    foreach hot in array array[
        'event_epochs', 'taken_seats', 'seat_log', 'area_stock', 'identity_use', 'instrument_use', 'orders',
        'payment_attempts', 'refunds', 'outbox', 'tickets', 'journal_records', 'journal_answers', 'waitlist_places',
        'waitlist_commands'
    ] loop
        execute format('alter table public.%I set schema plain', hot);
        execute format(
            'create table public.%I (like plain.%I including defaults including identity including constraints)
             partition by hash (event_id)', hot, hot);
        for rule in
            select con.conname as name, case con.contype when 'p' then 'primary key' else 'unique' end as kind,
                   array(select att.attname from unnest(con.conkey) with ordinality k (attnum, n)
                           join pg_attribute att on att.attrelid = con.conrelid and att.attnum = k.attnum
                          order by k.n) as columns
              from pg_constraint con
             where con.conrelid = format('plain.%I', hot)::regclass and con.contype in ('p', 'u')
        loop
            if not 'event_id' = any(rule.columns) then
                rule.columns := array_prepend('event_id'::name, rule.columns);
            end if;
            execute format('alter table public.%I add constraint %I %s (%s)', hot, rule.name, rule.kind,
                (select string_agg(quote_ident(name), ', ') from unnest(rule.columns) c (name)));
        end loop;
        for rule in
            select ind.indexrelid, ind.indisunique as is_unique
              from pg_index ind
             where ind.indrelid = format('plain.%I', hot)::regclass
               and not exists (select 1 from pg_constraint con where con.conindid = ind.indexrelid)
        loop
            definition := replace(pg_get_indexdef(rule.indexrelid), 'plain.' || hot, 'public.' || hot);
            if rule.is_unique and definition !~ '\(.*\mevent_id\M.*\)' then
                definition := replace(definition, 'btree (', 'btree (event_id, ');
            end if;
            execute definition;
        end loop;
        for rule in
            select pg_get_triggerdef(tg.oid) as definition from pg_trigger tg
             where tg.tgrelid = format('plain.%I', hot)::regclass and not tg.tgisinternal
        loop
            execute replace(rule.definition, 'plain.' || hot, 'public.' || hot);
        end loop;
        for part in 0..3 loop
            execute format('create schema if not exists part_%s', part);
            execute format('create table part_%s.%I partition of public.%I for values with (modulus 4, remainder %s)',
                part, hot, hot, part);
        end loop;
        for child in
            select part.oid::regclass as name, parent.relname as wanted, part.relname as given
              from pg_inherits inh
              join pg_class part on part.oid = inh.inhrelid
              join pg_class parent on parent.oid = inh.inhparent
              join pg_index ind on ind.indexrelid = parent.oid
             where ind.indrelid = format('public.%I', hot)::regclass
        loop
            if child.given <> child.wanted then
                execute format('alter index %s rename to %I', child.name, child.wanted);
            end if;
        end loop;
    end loop;
end
$$;
