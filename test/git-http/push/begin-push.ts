import assert from 'node:assert/strict'
import type { Test } from 'tap'
import type { Pusher } from '../../../src/domain/actors.ts'
import type { RefUpdate } from '../../../src/domain/ref-updates.ts'
import { openRepository } from '../../../src/git/opened-repository.ts'
import { createFolderSync } from '../../../src/git-http/push/folder-sync.ts'
import { packet } from '../../../src/git-http/push/pkt-line.ts'
import type { Presence } from '../../../src/git-http/push/presence.ts'
import { Push } from '../../../src/git-http/push/push.ts'
import { PushRecorder, type PushRecorderOptions } from '../../../src/git-http/push/record.ts'
import { Turns } from '../../../src/schedule/turns.ts'
import type { Repository } from '../../../src/store/repositories/repositories.ts'
import type { Store } from '../../../src/store/store.ts'

/** Returns a recorder whose errors fail the test. By default no push is overdue. */
export function startRecorder(
  t: Test,
  store: Store,
  options: Partial<PushRecorderOptions> = {},
): PushRecorder {
  return new PushRecorder({
    pushes: store.pushes,
    rules: store.rules,
    overdue: 60_000,
    presence: null,
    syncFolders: createFolderSync(),
    onError: (error) => t.error(error),
    ...options,
  })
}

/**
 * Returns a push to `owner/demo` that has not begun.
 *
 * @param tokenId of a token that ann has, where the push is to pass by a rule; default: of none
 */
export function createPush(
  t: Test,
  store: Store,
  recorder: PushRecorder,
  repository: Repository,
  commands: RefUpdate[],
  presence: Presence | null = null,
  tokenId = 'f00d',
): Push {
  const by = {
    kind: 'user',
    user: { id: 1, name: 'ann' },
    token: { id: tokenId, name: 'CI' },
    address: '192.0.2.1',
  } as const
  const pusher: Pusher = { by, repositoryId: repository.id, repositoryName: 'owner/demo' }
  return new Push({
    store,
    recorder,
    presence,
    syncFolders: createFolderSync(),
    onError: (error) => t.error(error),
    pusher,
    repository: { ...repository, permission: 'write', reservations: null },
    repositoryUrl: 'http://localhost/owner/demo',
    request: { commands, sideband: false },
    authorizeAgain: async () => {},
    turns: new Turns(store.remote),
  })
}

/** As `createPush`, and begins it. */
export async function beginPush(...args: Parameters<typeof createPush>): Promise<Push> {
  const push = createPush(...args)
  const [, , , repository] = args
  assert.equal(await push.begin(await openRepository(repository), new AbortController().signal), null)
  return push
}

/** Lets a push read the report of a git that has made its updates. */
export function report(push: Push, commands: readonly RefUpdate[]): void {
  const lines = ['unpack ok', ...commands.map(({ ref }) => `ok ${ref}`)]
  push.report.read(Buffer.from(`${lines.map(packet).join('')}0000`, 'latin1'))
}
