import { setTimeout } from 'node:timers/promises'
import type { Command } from 'commander'
import { describeDetails } from '../../domain/event-details.ts'
import type { AuditLine } from '../../store/audit/audit.ts'
import type { AuditFilter } from '../../store/audit/repository-events.ts'
import type { Store } from '../../store/store.ts'
import { replaceHidden } from '../../util/replace-characters.ts'
import { durationOption, splitFullName } from '../parts/arguments.ts'
import { count, drained, jsonText, print, say } from '../parts/output.ts'
import { asAdministrator, readingStore, type Settings, withStore } from '../parts/with-store.ts'

/** Milliseconds between two polls for new events. */
const POLL = 1_000

interface ListOptions {
  since?: string
  user?: string
  repo?: string
  token?: string
  json?: boolean
  follow?: boolean
}

export function addAuditCommands(program: Command, settings: Settings): void {
  const audit = program.command('audit').description('read the audit log: security events, oldest first')

  audit
    .command('list')
    .description('print events: time, actor, address, action, object, details')
    .option('--since <duration>', 'only events of the last 7d, 12h or another duration')
    .option('--user <name>', 'only what this user did and what was done to the user')
    .option('--repo <owner/name>', 'only events of this repository')
    .option('--token <id>', 'only what was done with this token and to it; also by its name')
    .option('--json', 'print one JSON array; with --follow, one JSON object per line')
    .option('--follow', 'keep printing new events until interrupted')
    .action((options: ListOptions) => {
      const filter = filterOf(options)
      return readingStore(settings, (store) =>
        options.follow ? follow(store, filter, options) : list(store, filter, options),
      )
    })

  audit
    .command('prune')
    .description('remove old events; nothing else removes any')
    .requiredOption('--older-than <duration>', 'age of the events to remove, for example 400d')
    .action(({ olderThan }: { olderThan: string }) => {
      const before = Date.now() - durationOption(olderThan, '--older-than')
      return withStore(settings, async (store) =>
        say(`Removed ${count(await store.auditLog.prune(asAdministrator(store), before), 'event')}.`),
      )
    })
}

function filterOf({ since, user, repo, token }: ListOptions): AuditFilter {
  if (repo !== undefined) splitFullName(repo)
  return {
    since: since === undefined ? undefined : Date.now() - durationOption(since, '--since'),
    user,
    repository: repo,
    token,
  }
}

/**
 * Prints the events batch by batch, as fast as they are read, so that memory does not grow with the
 * log.
 */
async function list(store: Store, filter: AuditFilter, { json }: ListOptions): Promise<void> {
  let separator = '['
  for await (const lines of store.auditLog.list(filter)) {
    if (json) print(`${separator}${lines.map((line) => jsonText(line)).join('\n,')}`)
    else print(lines.map(formatLine).join('\n'))
    separator = ','
    await drained()
  }
  if (json) print(separator === '[' ? '[]' : ']')
}

/** Prints events until the process is interrupted. */
async function follow(store: Store, filter: AuditFilter, { json }: ListOptions): Promise<void> {
  for await (const lines of store.auditLog.follow(filter, () => setTimeout(POLL))) {
    print(lines.map((line) => (json ? jsonText(line) : formatLine(line))).join('\n'))
    await drained()
  }
}

function formatLine(line: AuditLine): string {
  const { time, address, action, object } = line
  const details = [...subjectOf(line), describeDetails(line)].filter(Boolean).join(' ')
  const fields = [time, formatActor(line), address ?? '-', action, object, ...(details ? [details] : [])]
  return replaceHidden(fields.join('  '))
}

/**
 * Returns the subject of an event where neither actor, object nor details say it: whose token it
 * is.
 */
function subjectOf({ actor, user, subject, object, details }: AuditLine): string[] {
  const isShown = (actor === 'user' && subject === user) || subject === object || 'user' in details
  return subject === null || isShown ? [] : [`user=${subject}`]
}

function formatActor({ actor, user, token_name }: AuditLine): string {
  if (actor !== 'user') return actor
  return token_name === null ? `${user}` : `${user} (token ${token_name})`
}
