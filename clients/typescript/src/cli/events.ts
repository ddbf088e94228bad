import type { Status } from '../index.ts'
import { plain, print } from './terminal.ts'

/**
 * Prints one line for each status that differs from the last one of its context; for `--events`.
 */
export function printEvents() {
  const printed = new Map<string, string>()
  return {
    update({ statuses }: { statuses: readonly Status[] }): void {
      for (const { context, state, description, target_url } of statuses) {
        const line = plain([context, state, description, target_url].filter(Boolean).join('  '))
        if (printed.get(context) !== line) print(line)
        printed.set(context, line)
      }
    },
    clear(): void {},
    end(): void {},
  }
}
