import type { Command } from 'commander'
import { Refusal } from '../../domain/refusal.ts'
import { addressKey, UNKNOWN_ADDRESS } from '../../http/address.ts'
import { UsageError } from '../parts/arguments.ts'
import { printList } from '../parts/output.ts'
import { changeStore, readingStore, type Settings } from '../parts/with-store.ts'

export function addBlockedCommands(program: Command, settings: Settings): void {
  const blocked = program
    .command('blocked')
    .description('manage addresses with too many failed authentication attempts')

  blocked
    .command('list')
    .description('list the blocked addresses')
    .option('--json', 'print one JSON array')
    .action((options: { json?: boolean }) =>
      readingStore(settings, async (store, { budget }) => {
        const rows = (await store.failures.list(budget)).map(({ address, failures, endsAt }) => ({
          address,
          failures: String(failures),
          blocked_until: new Date(endsAt).toISOString(),
        }))
        await printList(rows, options.json, 'No address is blocked.')
      }),
    )

  blocked
    .command('lift <address>')
    .description('unblock an address: reset its failures to zero')
    .action((address: string) =>
      changeStore(settings, async (change, store) => {
        const key = addressKey(address.replace(/\/64$/, ''))
        if (key === UNKNOWN_ADDRESS)
          throw new UsageError(
            `"${address}" is not an IP address (expected for example 192.0.2.1 or 2001:db8::1)`,
          )
        if (!(await store.failures.lift(change, key)))
          throw new Refusal(`no failed attempts are counted for ${address}`)
      }),
    )
}
