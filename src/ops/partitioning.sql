-- Turns the table `statuses` into 16 hash partitions by repository_id while the server runs (PostgreSQL 14 or later):
--
--   psql --no-psqlrc --set ON_ERROR_STOP=1 --file partitioning.sql "$DATABASE_URL"
--
-- Run it as the role of the server, with as much free disk space as the table and its index take. Requests wait at most
-- two seconds for a lock of it. `repo delete` may fail while it runs; run it again.
--
-- If it stops before step 5, the server still uses the old table. To start again, first run:
--
--   drop table if exists statuses_partitioned; drop function if exists copy_to_partitions cascade;

set lock_timeout = '2s';
set statement_timeout = 0;
set default_transaction_isolation = 'read committed';

-- 1. An empty table with the same columns, keys and references.
begin;
create table statuses_partitioned (like statuses including all) partition by hash (repository_id);
do $$
declare
  reference record;
begin
  for reference in
    select conname as name, pg_get_constraintdef(oid) as definition
    from pg_constraint where conrelid = 'statuses'::regclass and contype = 'f'
  loop
    execute format('alter table statuses_partitioned add constraint %I %s', reference.name, reference.definition);
  end loop;
  for remainder in 0..15 loop
    execute format('create table %I partition of statuses_partitioned for values with (modulus 16, remainder %s)',
      'statuses_' || lpad(remainder::text, 2, '0'), remainder);
  end loop;
end $$;

-- 2. From here on every change of the old table is made in the new one too, in the same transaction.
create function copy_to_partitions() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' then
    delete from statuses_partitioned
    where (repository_id, sha, context) = (old.repository_id, old.sha, old.context);
  end if;
  if tg_op <> 'DELETE' then
    insert into statuses_partitioned select (new).*;
  end if;
  return null;
end $$;
create trigger copy_to_partitions after insert or update or delete on statuses
  for each row execute function copy_to_partitions();
commit;

-- 3. Copies existing rows, 2,000 at a time. Locking a batch delays changes to its rows until it is committed, so the trigger
-- finds the copies. A batch that conflicts is repeated.
create procedure copy_statuses() language plpgsql as $$
declare
  last statuses%rowtype;
  latest statuses%rowtype;
begin
  select 0, '', '' into last.repository_id, last.sha, last.context;
  loop
    begin
      with batch as materialized (
        select * from statuses
        where (repository_id, sha, context) > (last.repository_id, last.sha, last.context)
        order by repository_id, sha, context
        limit 2000
        for share
      ), copied as (
        insert into statuses_partitioned select * from batch on conflict do nothing
      )
      select * into latest from batch order by repository_id desc, sha desc, context desc limit 1;
      exit when not found;
      last := latest;
    exception when deadlock_detected or foreign_key_violation or lock_not_available then
      null;
    end;
    commit;
  end loop;
end $$;
call copy_statuses();
drop procedure copy_statuses;
create temporary table copied as select clock_timestamp() as at;
vacuum analyze statuses_partitioned;

-- 4. Both tables must be equal. One statement reads one snapshot, so this may take long.
do $$
begin
  if exists (
    (table statuses except table statuses_partitioned) union all (table statuses_partitioned except table statuses)
  ) then
    raise exception 'the tables differ';
  end if;
end $$;

-- 5. A transaction from before the end of the copy, such as a backup, would find rows missing in the new table: waits for it.
-- Then exchanges the tables. Retries if the lock times out.
do $$
begin
  while exists (
    select from pg_stat_activity, copied
    where pid <> pg_backend_pid() and datname = current_database() and xact_start < copied.at
      and backend_type = 'client backend'
  ) loop
    -- There is no notification of ended transactions, and pg_stat_activity is cached per transaction.
    perform pg_sleep(0.2), pg_stat_clear_snapshot();
  end loop;
  loop
    begin
      lock table statuses, statuses_partitioned in access exclusive mode;
      exit;
    exception when lock_not_available then
      -- Requests that queued behind the lock are served in this pause.
      perform pg_sleep(1);
    end;
  end loop;
  drop trigger copy_to_partitions on statuses;
  alter table statuses rename to statuses_unpartitioned;
  alter table statuses_unpartitioned rename constraint statuses_pkey to statuses_unpartitioned_pkey;
  alter table statuses_partitioned rename to statuses;
  alter table statuses rename constraint statuses_partitioned_pkey to statuses_pkey;
end $$;

-- 6. The old table is no longer used.
drop function copy_to_partitions;
drop table statuses_unpartitioned;

-- 7. Makes new connections plan each statement once. Otherwise PostgreSQL replans the statements of requests each time, which
-- takes longer than executing them. Restart the instances one after the other. Before PostgreSQL 18, skip this on machines
-- with many processors, where locks on all partitions cost more than planning.
do $$
begin
  execute format('alter role %I in database %I set plan_cache_mode = force_generic_plan', current_user, current_database());
end $$;
