import { type Audit, type Pusher, repositoryNameOf } from '../../store/audit.ts'
import { persist } from '../../util/persist.ts'
import type { PushResult } from './observer.ts'
import { readRefIds } from './ref-graph.ts'

export interface PushRecorder {
  /**
   * Records what a push updated, once git has ended. Never rejects: the refs have moved, so a failure can only be logged.
   *
   * @param path absolute path of the git directory
   */
  record(pusher: Pusher, path: string, result: PushResult): Promise<void>
  /** Resolves when all events are stored. */
  idle(): Promise<void>
}

/** @param onError receives an event that could not be stored, with the error */
export function createPushRecorder(
  audit: Audit,
  onError: (error: unknown, event: object) => void,
): PushRecorder {
  const pending = new Set<Promise<void>>()

  async function store({ by, repositoryId, repositoryName }: Pusher, result: PushResult): Promise<void> {
    const { updates, more, unreported } = result
    const details = { updates, ...(more > 0 && { more }), ...(unreported && ({ unreported } as const)) }
    const write = () =>
      audit.transaction(async (db, record) => {
        const repository = (await repositoryNameOf(db, repositoryId)) ?? repositoryName
        await record({ by, action: 'push', repository, details })
      })
    await persist(write).catch((error: unknown) => onError(error, { by, repositoryName, details }))
  }

  async function recordResult(pusher: Pusher, path: string, result: PushResult): Promise<void> {
    const updated = result.unreported ? await findUpdated(path, result) : result
    if (updated.updates.length > 0 || updated.more > 0) await store(pusher, updated)
  }

  return {
    record(pusher, path, result) {
      const recorded = recordResult(pusher, path, result).finally(() => pending.delete(recorded))
      pending.add(recorded)
      return recorded
    },
    async idle() {
      await Promise.all(pending)
    },
  }
}

/**
 * Returns those updates of a push without a report that took effect, as far as the refs tell. If they cannot be read, returns
 * all: an event too many is better than one too few.
 */
async function findUpdated(path: string, result: PushResult): Promise<PushResult> {
  const asked = result.updates.filter((update) => update.old !== update.new)
  try {
    const refs = await readRefIds(
      path,
      asked.map(({ ref }) => ref),
    )
    const updates = asked.filter(({ ref, new: id }) => {
      // git cannot be asked for a name that is not UTF-8.
      if (ref.includes('\ufffd')) return true
      return /^0+$/.test(id) ? !refs.has(ref) : refs.get(ref) === id
    })
    return { ...result, updates, more: updates.length > 0 ? result.more : 0 }
  } catch {
    return { ...result, updates: asked }
  }
}
