import type { RefusalKind } from '../domain/ref-updates.ts'
import { whoSent } from '../replies/client.ts'
import { recheckAccess } from '../replies/recheck-access.ts'
import type { PushRequest } from './push/commands.ts'
import { type RefRefusal, type RefusedRef, refusalLines } from './push/refused-refs.ts'
import { reportRefusal } from './push/report.ts'
import { asGitError, kindOfError, tellInProtocol } from './refusals.ts'
import type { GitRequest } from './service.ts'

/** Refuses pushes in the report that git would give, and counts and logs what was refused. */
export class PushRefusals {
  readonly #onRefused: (kind: RefusalKind) => void

  /** @param onRefused called once for each kind of reason why refs of a push were refused */
  constructor(onRefused: (kind: RefusalKind) => void) {
    this.#onRefused = onRefused
  }

  /** Counts and logs refs that were refused, which no status of an answer tells. */
  record({ request, pusher }: GitRequest, refused: readonly RefusedRef[]): void {
    for (const kind of new Set(refused.map((it) => it.kind))) this.#onRefused(kind)
    const push = { reqId: request.id, ...whoSent(request), repository: pusher?.repositoryName }
    for (const { fields, message } of refusalLines(refused))
      request.server.log.info({ ...push, ...fields }, message)
  }

  /** Refuses a push as a whole. Returns the report that git would give. */
  refuse(call: GitRequest, request: PushRequest, refusal: RefRefusal): Buffer {
    this.record(
      call,
      request.commands.map(({ ref }) => ({ ref, ...refusal })),
    )
    return reportRefusal(request, refusal.reason)
  }

  /** As `refuse`, of a push that failed. @throws the error if HTTP must tell it */
  async fail(call: GitRequest, request: PushRequest, cause: unknown): Promise<Buffer> {
    // A git that cannot be started fails twice.
    const isRecorded = call.request.refusal !== null
    const error = asGitError(await recheckAccess(cause, call.authorizeAgain))
    const reason = tellInProtocol(call, error)
    if (isRecorded) return reportRefusal(request, reason)
    return this.refuse(call, request, { reason, kind: kindOfError(error) })
  }
}
