import { closeSync, openSync, readdirSync, rmSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { say } from '../terminal.ts'
import { createFolder } from './folder.ts'

export interface LogSettings {
  folder: string
  /** How many are kept of each repository. */
  keep: number
  /** A URL in which `{log}` stands for the file. */
  link: string | undefined
}

/** Where the output of a command goes. */
export interface Output {
  /** Copies a stream to the terminal and the log until it ends, as fast as the terminal takes it. */
  copy(from: Readable, to: Writable): Promise<void>
  /** Closes the log, and removes older ones. */
  close(): void
}

/** Logs that are being written. */
const openLogs = new Set<string>()
/** Bytes of a log; a command that prints without end must not fill the disk. */
const LARGEST_LOG = 64 * 2 ** 20
const LONGEST_LINE = 10_000
/** Sequences that color text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with an escape
const COLORS = /\x1b\[[\d;:]*m/g

/**
 * Opens the output of a command.
 *
 * @param label begins each line at the terminal
 * @param log created with its folder; it goes on if a killed worker has begun it
 */
export function openOutput(label: string, log?: { file: string; keep: number }): Output {
  let size = 0
  let descriptor: number | undefined
  if (log) {
    createFolder(dirname(log.file))
    // A run that is begun again goes on with its log.
    descriptor = openSync(log.file, 'a')
    openLogs.add(log.file)
  }

  function record(chunk: Buffer): void {
    if (descriptor === undefined || size >= LARGEST_LOG) return
    try {
      writeSync(descriptor, chunk.subarray(0, LARGEST_LOG - size))
      size += chunk.length
      if (size >= LARGEST_LOG)
        writeSync(descriptor, `\n[commit-status: the log ends after ${LARGEST_LOG} bytes]\n`)
    } catch (error) {
      // A full disk ends the log, not the command.
      size = LARGEST_LOG
      say(`warning: a log ends: ${reasonOf(error)}`)
    }
  }

  return {
    async copy(from, to) {
      const decoder = new StringDecoder('utf8')
      // One that cannot be written to any more may never drain, but fails the write.
      const print = (lines: string[]) =>
        new Promise<void>((resolve) => {
          const text = lines.map((line) => `${label}${printable(line)}\n`).join('')
          if (text === '' || to.write(text, () => resolve())) resolve()
        })
      let rest = ''
      for await (const chunk of from as AsyncIterable<Buffer>) {
        record(chunk)
        const lines = (rest + decoder.write(chunk)).split('\n')
        rest = lines.pop() ?? ''
        if (rest.length > LONGEST_LINE) {
          lines.push(rest)
          rest = ''
        }
        await print(lines)
      }
      if (rest !== '') await print([rest])
    },
    close() {
      if (!log || descriptor === undefined) return
      const closed = descriptor
      // What could not be ended may print more, and the number becomes that of another file.
      descriptor = undefined
      openLogs.delete(log.file)
      try {
        closeSync(closed)
        removeOldLogs(dirname(log.file), log.keep)
      } catch (error) {
        // It is not the result of the command.
        say(`warning: ${reasonOf(error)}`)
      }
    },
  }
}

/** Returns a line without what controls a terminal: whoever pushes decides what is printed. */
function printable(line: string): string {
  return line
    .replace(COLORS, '')
    .replace(/\r$/, '')
    .replace(/[^\t\P{Cc}]|[\p{Bidi_Control}\u2028\u2029]/gu, ' ')
}

/** Removes all but the newest logs of a folder, beside those that are being written. */
export function removeOldLogs(folder: string, keep: number): void {
  const files = readdirSync(folder)
    .filter((name) => name.endsWith('.log'))
    .map((name) => join(folder, name))
    .filter((path) => !openLogs.has(path))
    // Another worker may have removed one.
    .map((path) => ({ path, at: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.at - a.at)
  for (const { path } of files.slice(keep)) rmSync(path, { force: true })
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
