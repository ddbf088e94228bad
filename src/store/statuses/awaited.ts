import { memoizeByObject } from '../../util/memoize.ts'
import type { Reading } from '../engine.ts'
import { prepare } from '../prepared.ts'

/** Commits that may wait for a check. */
interface AwaitedQuestion {
  repositoryId: number
  context: string
  /** Full ids: a JSON array. */
  shas: string
}

/** A commit without a result of the check. */
export interface Awaited {
  /** Its index among the commits. */
  position: number
  /** null if nothing has reported the check. */
  state: 'pending' | null
}

const inOrder = memoizeByObject((rows: Awaited[]) =>
  rows.toSorted((one, other) => one.position - other.position),
)

/** Names what follows from the statuses of a context where it is cached. */
export function awaitedKey({ repositoryId, context }: Pick<AwaitedQuestion, 'repositoryId' | 'context'>) {
  return `awaited ${repositoryId} ${context}`
}

/**
 * Returns a function that reads which commits have no result of a context, in their order: the
 * same array as before while the database is sure that nothing has changed.
 */
export function createAwaited({ dialect, kysely, read }: Reading) {
  const awaited = prepare<AwaitedQuestion>()((p) =>
    kysely
      .selectFrom(dialect.elements(p.shas).as('commits'))
      .leftJoin('statuses', (join) =>
        join
          .on('statuses.repository_id', '=', p.repositoryId)
          .onRef('statuses.sha', '=', 'commits.value')
          .on('statuses.context', '=', p.context),
      )
      .select('commits.position')
      .select((eb) => eb.ref('statuses.state').$castTo<Awaited['state']>().as('state'))
      .where((eb) => eb.or([eb('statuses.state', 'is', null), eb('statuses.state', '=', 'pending')])),
  )
  return async (question: AwaitedQuestion): Promise<Awaited[]> => {
    const rows = await read(awaited, question, { key: awaitedKey(question), variant: question.shas })
    return inOrder(rows)
  }
}
