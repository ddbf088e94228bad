import type { Command } from 'commander'
import { BRANCHES, TAGS } from '../../domain/ref-names.ts'
import { flawsOfRule, MAX_REPOSITORY_PATTERNS } from '../../domain/ref-rules.ts'
import { noteOnPattern, noteOnUnchecked } from '../../domain/rule-patterns.ts'
import { GitFailed, RepositoryUnavailable } from '../../git/errors.ts'
import { openRepository } from '../../git/opened-repository.ts'
import { listRefs } from '../../git/refs/list-refs.ts'
import { decodeLatin1 } from '../../git/run-git.ts'
import { findUnchecked } from '../../repositories/unchecked.ts'
import type { Repository } from '../../store/repositories/repositories.ts'
import { findRepository, splitFullName } from '../parts/arguments.ts'
import { printList, say } from '../parts/output.ts'
import { asAdministrator, changeStore, readingStore, type Settings, withStore } from '../parts/with-store.ts'

/** Milliseconds for which a command waits for git. */
const TIMEOUT = 10_000

export function addRuleCommands(program: Command, settings: Settings): void {
  const rule = program.command('rule').description('manage the required checks of branches and tags')

  rule
    .command('set <owner/name> <pattern>')
    .description(
      'require checks on branches, or on tags with a pattern that begins with refs/tags/; replaces the rule with the same pattern',
    )
    .requiredOption(
      '--require <pattern...>',
      'contexts that must have reported success, at least one by its exact name; * stands for any characters',
    )
    .option('--bypass <user...>', 'who may push to these branches and tags without the checks')
    .action((fullName: string, refPattern: string, options: { require: string[]; bypass?: string[] }) =>
      withStore(settings, async (store) => {
        const repository = await findRepository(store, fullName)
        const bypass = await Promise.all((options.bypass ?? []).map((name) => store.users.get(name)))
        const rule = { refPattern, required: options.require, bypass }
        const total = await asAdministrator(store)((change) => store.rules.set(change, repository, rule))
        if (total > MAX_REPOSITORY_PATTERNS)
          say(
            `The rules of ${fullName} together require ${total} patterns; at most ${MAX_REPOSITORY_PATTERNS} are allowed now. They keep working, but no pattern can be added.`,
          )
        const note = noteOnPattern(refPattern, await refNames(repository))
        if (note !== null) say(`${refPattern}: ${note}`)
        const unchecked = noteOnUnchecked(await findUnchecked(store, repository, refPattern))
        if (unchecked !== null) say(`${refPattern}: ${unchecked}`)
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
          for (const rule of await store.rules.load(id))
            rows.push({
              repository: `${owner}/${name}`,
              branch: rule.refPattern,
              require: rule.required,
              bypass: rule.bypass.map((user) => user.name),
              note: flawsOfRule(rule).join('; '),
            })
        }
        // Rules of tags have patterns too; scripts know the field from before.
        await printList(rows, options.json, 'There are no rules.', { branch: 'pattern' })
      }),
    )

  rule
    .command('remove <owner/name> <pattern>')
    .description('remove the rule with this pattern')
    .action((fullName: string, refPattern: string) =>
      changeStore(settings, (change, store) =>
        store.rules.remove(change, splitFullName(fullName), refPattern),
      ),
    )
}

/** Returns the full names of all branches and tags; null if they cannot be read now. */
async function refNames(repository: Repository): Promise<string[] | null> {
  const names: string[] = []
  const list = async () => {
    const opened = await openRepository(repository)
    await listRefs(opened, ['refname'], { args: [BRANCHES, TAGS], timeout: TIMEOUT }, ([name = '']) => {
      names.push(decodeLatin1(name))
    })
    return names
  }
  return list().catch((error: unknown) => {
    if (error instanceof GitFailed || error instanceof RepositoryUnavailable) return null
    throw error
  })
}
