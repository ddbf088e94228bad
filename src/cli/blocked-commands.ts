import type { Command } from 'commander'
import { addressKey, UNKNOWN_ADDRESS } from '../auth/address.ts'
import { RuleViolation } from '../store/rule-violation.ts'
import { printList } from './output.ts'
import { UsageError } from './usage-error.ts'
import type { WithStore } from './with-store.ts'

export function addBlockedCommands(program: Command, withStore: WithStore): void {
  const blocked = program.command('blocked').description('addresses that failed to authenticate too often')

  blocked
    .command('list')
    .description('list the addresses that are blocked now')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      withStore(async (store, { budget }) => {
        const rows = (await store.failures.list(budget)).map(({ address, failures, endsAt }) => ({
          address,
          failures: String(failures),
          blocked_until: new Date(endsAt).toISOString(),
        }))
        printList(rows, options.json, 'No address is blocked.')
      }),
    )

  blocked
    .command('lift')
    .argument('<address>')
    .description("forget an address's failures")
    .action((address: string) =>
      withStore(async (store) => {
        const key = addressKey(address.replace(/\/64$/, ''))
        if (key === UNKNOWN_ADDRESS) throw new UsageError(`"${address}" is not an IP address`)
        if (!(await store.failures.lift(key))) throw new RuleViolation(`nothing is counted for ${address}`)
      }),
    )
}
