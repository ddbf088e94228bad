import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')
/** Test files for one changed file, unless more than these import or name it. */
const NEAREST = 40
/** A helper that no more test files import is part of what they say. */
const OWN_HELPER = 3
/** Words of the changed lines count for more than those of the rest of the file. */
const CHANGED_LINES = 3
/** Words of a file that imports the changed one count for less. */
const IMPORTER = 0.5

export interface Change {
  /** Path from the root of the project. */
  file: string
  /** The changed lines and those around them; may be empty. */
  lines: string
}

/** Returns what differs from a commit, untracked files included. */
export function changesSince(commit: string): Change[] {
  const changed = gitLines('diff', '--name-only', '--no-renames', commit)
  return [
    ...changed.map((file) => ({
      file,
      lines: gitLines('diff', '-U10', commit, '--', file).slice(4).join('\n'),
    })),
    ...gitLines('ls-files', '--others', '--exclude-standard').map((file) => ({ file, lines: '' })),
  ]
}

/** Returns the test files that belong to changes, the nearest first. */
export function affectedTests(changes: readonly Change[]): string[] {
  const index = new TestIndex(changes.map(({ file }) => file))
  const ranks = new Map<string, number>()
  for (const change of changes)
    for (const [rank, test] of index.testsOf(change).entries())
      ranks.set(test, Math.min(rank, ranks.get(test) ?? rank))
  return [...ranks].sort(([, a], [, b]) => a - b).map(([test]) => test)
}

/**
 * Finds the test files that belong to a file: those that import or name it, and then those that
 * share the rarest words with it, since a test names what it checks: a function, a route, a
 * command, a column, a message.
 *
 * Imports alone do not tell: nearly every test starts a server or a command, and so imports
 * everything.
 */
export class TestIndex {
  readonly #words = new Map<string, ReadonlySet<string>>()
  /** For each file and folder the files that import or name it. */
  readonly #users = new Map<string, string[]>()
  /** For each test file its words and those of its own helpers. */
  readonly #testWords = new Map<string, Set<string>>()
  /** In how many test files a word is. */
  readonly #frequencies = new Map<string, number>()

  /** @param deleted files that may exist no more */
  constructor(deleted: readonly string[] = []) {
    const files = [...gitLines('ls-files', '--cached', '--others', '--exclude-standard'), ...deleted]
    const places = new Set(files.flatMap((file) => [file, ...foldersOf(file)]))
    for (const file of new Set(files)) {
      if (!existsSync(join(root, file))) continue
      const text = readFileSync(join(root, file), 'utf8')
      this.#words.set(file, wordsOf(`${file} ${text}`))
      for (const place of /\.(ts|mjs)$/.test(file) ? namedPlaces(file, text) : [])
        if (places.has(place)) this.#users.set(place, [...this.#usersOf(place), file])
    }
    for (const file of this.#words.keys()) {
      if (!isOfTests(file)) continue
      const tests = isTest(file) ? [file] : [...this.#testsThatUse(file)]
      if (tests.length > OWN_HELPER) continue
      for (const test of tests)
        this.#testWords.set(test, new Set([...(this.#testWords.get(test) ?? []), ...this.#wordsIn(file)]))
    }
    for (const words of this.#testWords.values())
      for (const word of words) this.#frequencies.set(word, (this.#frequencies.get(word) ?? 0) + 1)
  }

  /** Returns the tests that belong to a change, the nearest first. */
  testsOf({ file, lines }: Change): string[] {
    const importers = this.#usersOf(file).filter((user) => !isOfTests(user))
    const changed = new Set(wordsOf(lines))
    const similarity = (test: string) =>
      Math.max(
        this.#similarity(this.#wordsIn(file), test),
        ...importers.map((user) => IMPORTER * this.#similarity(this.#wordsIn(user), test)),
      ) +
      CHANGED_LINES * this.#similarity(changed, test)
    const similarities = [...this.#testWords.keys()].map((test) => ({ test, similarity: similarity(test) }))
    const nearest = similarities.sort((a, b) => b.similarity - a.similarity).map(({ test }) => test)

    const using = this.#testsThatUse(file)
    const others = nearest.filter((test) => !using.has(test))
    const room = Math.max(0, NEAREST - using.size)
    return [...nearest.filter((test) => using.has(test)), ...others.slice(0, room)]
  }

  /** Returns the test files that import or name a file; those of a helper also by way of others. */
  #testsThatUse(file: string): Set<string> {
    const found = new Set([file, ...foldersOf(file)])
    for (const place of [...found]) for (const user of this.#usersOf(place)) found.add(user)
    if (isOfTests(file)) for (const place of found) for (const user of this.#usersOf(place)) found.add(user)
    return new Set([...found].filter((place) => isTest(place) && this.#words.has(place)))
  }

  /** Returns how alike a file and a test are: the cosine of their words weighed by rarity (TF-IDF). */
  #similarity(words: ReadonlySet<string>, test: string): number {
    const own = this.#testWords.get(test) ?? new Set()
    let sum = 0
    for (const word of words) if (own.has(word)) sum += this.#rarity(word) ** 2
    return sum / Math.sqrt(own.size)
  }

  #rarity(word: string): number {
    return Math.log(this.#testWords.size / (this.#frequencies.get(word) ?? 1))
  }

  #wordsIn(file: string): ReadonlySet<string> {
    return this.#words.get(file) ?? new Set()
  }

  #usersOf(place: string): readonly string[] {
    return this.#users.get(place) ?? []
  }
}

function isTest(file: string): boolean {
  return file.endsWith('.test.ts')
}

function isOfTests(file: string): boolean {
  return /^(test|clients\/[^/]+\/test)\//.test(file)
}

/** Returns the files and folders that the strings of a file may name: imports, programs, documents. */
function namedPlaces(file: string, text: string): string[] {
  const strings = [...text.matchAll(/['"`]([\w./-]*\w[\w./-]*)['"`]/g)].map(([, string = '']) => string)
  return strings.flatMap((string) => [normalize(join(dirname(file), string)), normalize(string)])
}

/** Returns identifiers and words of a text, and the words of which identifiers consist. */
function wordsOf(text: string): Set<string> {
  const words = text.match(/[A-Za-z][\w-]*\w/g) ?? []
  const parts = words.flatMap((word) => word.split(/[-_]|(?<=[a-z0-9])(?=[A-Z])/))
  return new Set([...words, ...parts.map((part) => part.toLowerCase())])
}

/**
 * Returns the folders above a file, except those with a name of one word: most strings that equal
 * one mean something else.
 */
function foldersOf(file: string): string[] {
  const parts = file.split('/').slice(0, -1)
  return parts
    .map((_, index) => parts.slice(0, index + 1).join('/'))
    .filter((path) => path.includes('/') || path === 'src')
}

function gitLines(...args: string[]): string[] {
  const lines = execFileSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 1e8 }).split('\n')
  return lines.filter((line) => line !== '')
}
