import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'

/** A recipe: a file for one CI system, or for one purpose. */
export interface Recipe {
  file: string
  /** What it is for, in Markdown: `GitHub Actions`. */
  purpose: string
  text: string
}

/** The folder of the recipes; its README.md lists them. */
export const RECIPES_FOLDER = resolve(import.meta.dirname, '../../../../clients/recipes')
export const RECIPES_INDEX = 'README.md'

/** What stands in the recipes for the server, in some with a user before it, and the repository of a reader. */
const EXAMPLE_ORIGIN = /https:\/\/(mirror@)?status\.example\.org/g
const EXAMPLE_REPOSITORY = 'acme/rocket'

/** All recipes, in the order of the table of their README. */
export const recipes: readonly Recipe[] = readTable().flatMap(({ files, purpose }) =>
  files.map((file) => ({ file, purpose, text: readFileSync(resolve(RECIPES_FOLDER, file), 'utf8') })),
)

/** Returns the names of the files that the recipes consist of, the README too. */
export function recipeFiles(): string[] {
  const entries = readdirSync(RECIPES_FOLDER, { withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

/** Returns the rows of the table, `| [`FILE`](FILE), … | PURPOSE |`. */
function readTable(): { files: string[]; purpose: string }[] {
  const lines = readFileSync(resolve(RECIPES_FOLDER, RECIPES_INDEX), 'utf8').split('\n')
  return lines.flatMap((line) => {
    const [, first = '', purpose = ''] = line.split('|')
    const files = [...first.matchAll(/\]\(([\w.-]+)\)/g)].map(([, file = '']) => file)
    return files.length > 0 ? [{ files, purpose: purpose.trim() }] : []
  })
}

/**
 * Returns a recipe, or the notes on them, for a server and, where one is chosen, a repository.
 *
 * @param text of the file
 * @param origin the public origin: `https://status.example.org`
 * @param repository OWNER/NAME; empty if none is chosen
 */
export function fillIn(text: string, origin: string, repository: string): string {
  const filled = text.replace(EXAMPLE_ORIGIN, (_, user: string | undefined) =>
    origin.replace('//', `//${user ?? ''}`),
  )
  return repository === '' ? filled : filled.replaceAll(EXAMPLE_REPOSITORY, () => repository)
}
