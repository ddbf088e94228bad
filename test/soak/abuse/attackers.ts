import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import type { Attack } from './attack.ts'

const program = resolve(import.meta.dirname, 'attack.ts')

/** Runs attacks, each in a process of its own, while `work` goes on; then ends them. */
export async function during<T>(attacks: readonly Attack[], work: () => Promise<T>): Promise<T> {
  const children = attacks.map((attack) =>
    spawn(process.execPath, [program, JSON.stringify(attack)], { stdio: ['ignore', 'ignore', 'inherit'] }),
  )
  try {
    return await work()
  } finally {
    for (const child of children) {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    }
  }
}
