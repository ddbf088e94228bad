import type { DialectSql } from '../engine.ts'

/** Statements that add a reporter for each token without one. */
export const addMissingReporters = [
  `insert into reporters (user_name, token_id, token_name)
    select users.name, tokens.id, tokens.name from tokens join users on users.id = tokens.user_id
    where tokens.reporter_id is null and tokens.id not in (select token_id from reporters) order by tokens.created_at, tokens.id`,
  `update tokens set reporter_id = (select reporters.id from reporters where reporters.token_id = tokens.id)
    where reporter_id is null`,
]

/**
 * Adds the subjects that events have by what they say: a user's push is the only thing done to
 * nobody.
 */
export const addMissingSubjects = `update audit_events
  set subject_id = user_id, subject_name = user_name, subject_key = user_key
  where subject_key is null and user_key is not null and (actor <> 'user' or repository_key is null)`

/**
 * Adds the owners of users and repositories that have none, as those of version 0.2.0. A group
 * without members that is older than a user of its name stays a group.
 */
export const addMissingOwners = [
  `insert into owners (name, name_key, created_at) select name, name_key, created_at from users
    where name_key not in (select name_key from owners) order by id`,
  `insert into owners (name, name_key, created_at) select min(owner), owner_key, min(created_at) from repositories
    where owner_key not in (select name_key from owners) group by owner_key order by min(id)`,
  `update repositories set owner_id = (select owners.id from owners where owners.name_key = repositories.owner_key)
    where owner_id is null or owner_key <> (select owners.name_key from owners where owners.id = owner_id)`,
  `insert into members (owner_id, user_id, permission) select owners.id, users.id, 'admin'
    from users join owners on owners.name_key = users.name_key and owners.created_at >= users.created_at
    where owners.id not in (select owner_id from members)`,
  'update collaborators set granted = permission where granted is null',
]

/** Greater than each time and id. */
const LAST = '9223372036854775807'

/**
 * Returns the statement that adds the repositories to events of version 0.3.0 or earlier, which have
 * only names, by the names that each repository had, from the present one back to the first: another
 * repository may have had one of them before or afterwards. An event of a repository that is gone
 * gets none.
 */
export const addMissingRepositories = ({ fieldOf }: DialectSql): string => {
  // By which the repository got the name.
  const move = (id: string, since: string, key: string, end: string) => `(select ${id} from audit_events
    where repository_key = ${key} and action in ('repository.renamed', 'repository.transferred')
      and time >= ${since} and (time, id) < (${end}) order by time desc, id desc limit 1)`
  const name = "owner_key || '/' || name_key"
  const formerName = `lower(${fieldOf('moves.details', 'from')})`
  return `with recursive names (repository_id, since, name, end_time, end_id, move_id) as (
      select id, created_at * 1000, ${name}, ${LAST}, ${LAST},
        ${move('audit_events.id', 'repositories.created_at * 1000', name, `${LAST}, ${LAST}`)}
      from repositories
      union all
      select names.repository_id, since, ${formerName}, moves.time, moves.id,
        ${move('audit_events.id', 'names.since', formerName, 'moves.time, moves.id')}
      from names join audit_events as moves on moves.id = names.move_id
    )
    update audit_events set repository_id = names.repository_id
    from names left join audit_events as moves on moves.id = names.move_id
    where audit_events.repository_id is null and audit_events.repository_key = names.name
      and audit_events.time >= names.since
      and (audit_events.time, audit_events.id) < (names.end_time, names.end_id)
      and (moves.id is null or (audit_events.time, audit_events.id) >= (moves.time, moves.id))`
}

/** Returns the statements that complete rows of an older version after its backup was restored. */
export const completeOlderRows = (dialect: DialectSql): string[] => [
  ...addMissingReporters,
  addMissingSubjects,
  ...addMissingOwners,
  addMissingRepositories(dialect),
]
