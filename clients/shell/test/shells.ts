import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import type { Test } from 'tap'
import {
  type CommandLineOptions,
  commandLine,
  type RunningProcess,
} from '../../typescript/test/helpers/command-line.ts'
import { environmentOf, placeOf } from '../../typescript/test/helpers/run-script.ts'
import type { Service } from '../../typescript/test/helpers/service.ts'

export const script = resolve(import.meta.dirname, '../commit-status')

/** A shell of this machine. */
export interface Shell {
  name: string
  /** Runs the script. */
  program: string[]
  /** Starts the script with an environment that leads to the service. */
  start(t: Test, service: Service, args: string[], options?: CommandLineOptions): RunningProcess
  /** Starts `run` of the script, with a shell command, on the service's commit. */
  run(t: Test, service: Service, command: string, ...options: string[]): RunningProcess
}

/** The shells that exist, each once: `sh` is another name of one of them on most machines. */
export const shells = [['dash'], ['bash', '--posix'], ['busybox', 'ash'], ['sh']]
  .map((shell) => ({ shell, file: programFile(shell[0] ?? '') }))
  .filter(({ file }, index, all) => file !== '' && all.findIndex((other) => other.file === file) === index)
  .map(({ shell }) => shellOf(shell))

/** Returns the path of a program, without symbolic links; "" if there is none. */
function programFile(name: string): string {
  return spawnSync('sh', ['-c', `readlink -f "$(command -v ${name})"`], { encoding: 'utf8' }).stdout.trim()
}

function shellOf(shell: string[]): Shell {
  const program = [...shell, script]
  const start: Shell['start'] = (t, service, args, options = {}) =>
    commandLine(t, args, { program, ...options, env: { ...environmentOf(service), ...options.env } })
  return {
    name: shell.join(' '),
    program,
    start,
    run: (t, service, command, ...options) =>
      start(t, service, ['run', ...placeOf(service), ...options, '--', 'sh', '-c', command]),
  }
}
