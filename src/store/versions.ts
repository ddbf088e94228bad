import { sql } from 'kysely'
import { numberOf } from '../util/memoize.ts'
import type { Reading } from './engine.ts'
import { prepare } from './prepared.ts'
import { OPEN_PUSHES } from './repositories/branch-moves.ts'
import { repositoryCacheKey } from './statuses/statuses.ts'

/**
 * Returns functions that tell whether what is stored may have changed: each returns a text that is
 * another one then. What is read after a version is as it was at the version, or newer; so what was made
 * of it is current while the version is the same.
 *
 * A cache returns the same rows until a commit drops them. Without one, the database names its snapshot.
 */
export function createVersions({ dialect, kysely, remote, read }: Reading) {
  const snapshot = prepare<object>()(() =>
    kysely
      .selectFrom(sql<{ snapshot: string }>`(select ${sql.raw(dialect.snapshot)} as snapshot)`.as('asked'))
      .select('snapshot'),
  )
  const versionOf = async (key: string) => {
    const rows = await read(snapshot, {}, { key, variant: 'version' })
    return remote ? (rows[0]?.snapshot ?? '') : numberOf(rows).toString()
  }

  return {
    /**
     * Returns the version of all that is stored, failures of addresses aside; where the database has a
     * cache, also reports aside.
     *
     * @param snapshot as it was read with the session
     */
    ofAll: (snapshot: string | undefined): Promise<string> | string =>
      remote && snapshot !== undefined ? snapshot : versionOf(OPEN_PUSHES),

    /** Returns the version of the reports to repositories, as far as `ofAll` leaves them out. */
    async ofReports(repositoryIds: readonly number[]): Promise<string> {
      if (remote) return ''
      const versions = await Promise.all(repositoryIds.map((id) => versionOf(repositoryCacheKey(id))))
      return versions.join(' ')
    },
  }
}
