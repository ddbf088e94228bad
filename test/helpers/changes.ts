import { ADMINISTRATOR, type Administrator } from '../../src/domain/actors.ts'
import type { Change, Transact } from '../../src/store/audit/change.ts'
import type { Store } from '../../src/store/store.ts'

/** The functions of a part of the store that an administrator's change may call, without what each of them takes to do so. */
type Writing<Part> = {
  [Name in keyof Part as Part[Name] extends (...all: infer All) => unknown
    ? Change<Administrator> extends All[0]
      ? Name
      : Transact<Administrator> extends All[0]
        ? Name
        : never
    : never]: Part[Name] extends (first: never, ...rest: infer Rest) => Promise<infer Result>
    ? (...rest: Rest) => Promise<Result>
    : never
}

type Changes = { [Part in keyof Store]: Writing<Store[Part]> }

/** Those that are several changes. */
const IN_STEPS = [
  'users.delete',
  'members.setAll',
  'collaborators.setAll',
  'tokens.revokeAll',
  'auditLog.prune',
]

/** Returns the functions of the store that write, each for an administrator. */
export function asAdministrator(store: Store): Changes {
  const transact: Transact<Administrator> = (work) => store.audit.transaction(ADMINISTRATOR, work)
  const asChanges = ([part, functions]: [string, object | boolean]) => {
    const changes = Object.entries(functions).map(([name, write]: [string, unknown]) => {
      const run = async (first: Change<Administrator> | Transact<Administrator>, rest: unknown[]) =>
        typeof write === 'function' ? write(first, ...rest) : undefined
      const isInSteps = IN_STEPS.includes(`${part}.${name}`)
      return [
        name,
        (...rest: unknown[]) => (isInSteps ? run(transact, rest) : transact((change) => run(change, rest))),
      ]
    })
    return [part, Object.fromEntries(changes)]
  }
  // Functions that do not write are not in the type.
  return Object.fromEntries(Object.entries(store).map(asChanges)) as Changes
}
