import type { Command } from 'commander'
import { isMetByFirstMatch, MAX_REPOSITORY_PATTERNS } from '../../domain/branch-rules.ts'
import { findRepository, splitFullName } from '../parts/arguments.ts'
import { printList, say } from '../parts/output.ts'
import { asAdministrator, changeStore, readingStore, type Settings, withStore } from '../parts/with-store.ts'

export function addRuleCommands(program: Command, settings: Settings): void {
  const rule = program.command('rule').description('manage the required checks of branches')

  rule
    .command('set <owner/name> <branch-pattern>')
    .description('require checks on branches; replaces the rule with the same pattern')
    .requiredOption(
      '--require <pattern...>',
      'contexts that must have reported success, at least one by its exact name; * stands for any characters',
    )
    .option('--bypass <user...>', 'who may push to these branches without the checks')
    .action((fullName: string, branchPattern: string, options: { require: string[]; bypass?: string[] }) =>
      withStore(settings, async (store) => {
        const repository = await findRepository(store, fullName)
        const bypass = await Promise.all((options.bypass ?? []).map((name) => store.users.get(name)))
        const rule = { branchPattern, required: options.require, bypass }
        const total = await asAdministrator(store)((change) => store.rules.set(change, repository, rule))
        if (total > MAX_REPOSITORY_PATTERNS)
          say(
            `The rules of ${fullName} together require ${total} patterns; at most ${MAX_REPOSITORY_PATTERNS} are allowed now. They keep working, but no pattern can be added.`,
          )
      }),
    )

  rule
    .command('list [owner/name]')
    .description('list the rules of one repository, or of all')
    .option('--json', 'print one JSON array')
    .action((fullName: string | undefined, options: { json?: boolean }) =>
      readingStore(settings, async (store) => {
        const rows: Record<string, string | readonly string[]>[] = []
        const repositories =
          fullName === undefined ? await store.repositories.list() : [await findRepository(store, fullName)]
        for (const { id, owner, name } of repositories) {
          for (const { branchPattern, required, bypass } of await store.rules.load(id))
            rows.push({
              repository: `${owner}/${name}`,
              branch: branchPattern,
              require: required,
              bypass: bypass.map((user) => user.name),
              note: isMetByFirstMatch(required) ? 'met by the first match' : '',
            })
        }
        printList(rows, options.json, 'There are no rules.')
      }),
    )

  rule
    .command('remove <owner/name> <branch-pattern>')
    .description('remove the rule with this pattern')
    .action((fullName: string, branchPattern: string) =>
      changeStore(settings, (change, store) =>
        store.rules.remove(change, splitFullName(fullName), branchPattern),
      ),
    )
}
