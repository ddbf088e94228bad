import { Writable } from 'node:stream'
import { createLogger } from '../../src/ops/logger.ts'

/** Creates a logger and the list of the lines that it writes. */
export function recordLog(level: string) {
  const lines: string[] = []
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk))
      done()
    },
  })
  return { logger: createLogger(level, destination), lines }
}
