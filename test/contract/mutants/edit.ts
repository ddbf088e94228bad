import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'

const root = resolve(import.meta.dirname, '../../..')

/**
 * A change of the server's source, described by syntax instead of text, so that it survives
 * formatting, renamed variables and moved files.
 */
export interface Edit {
  /** Folder or file that is searched. */
  under: string
  /** Returns the text that replaces the node, or undefined for a node that stays. */
  replace(node: ts.Node): string | undefined
}

/**
 * Applies edits to the server's source. Returns the changed files by absolute path.
 *
 * @throws Error for an edit that changes nothing: the source has changed, and the mutant must
 * follow
 */
export function applyEdits(name: string, edits: readonly Edit[]): Map<string, string> {
  const changed = new Map<string, string>()
  for (const [index, { under, replace }] of edits.entries()) {
    const files = globSync(under.endsWith('.ts') ? under : `${under}/**/*.ts`, { cwd: root })
    let count = 0
    for (const file of files.map((path) => resolve(root, path))) {
      const text = changed.get(file) ?? readFileSync(file, 'utf8')
      const result = rewrite(file, text, replace)
      if (result === text) continue
      changed.set(file, result)
      count++
    }
    if (count === 0)
      throw new Error(`the mutant "${name}" does not apply: edit ${index} changes nothing in ${under}`)
  }
  return changed
}

function rewrite(file: string, text: string, replace: Edit['replace']): string {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true)
  const found: { start: number; end: number; by: string }[] = []
  const visit = (node: ts.Node): void => {
    const by = replace(node)
    if (by === undefined) ts.forEachChild(node, visit)
    else found.push({ start: node.getStart(), end: node.end, by })
  }
  visit(source)
  // From the end, so that the positions before stay valid.
  return found
    .reverse()
    .reduce((result, { start, end, by }) => result.slice(0, start) + by + result.slice(end), text)
}

/** Replaces the value at a path of keys, or the end of one, in a generated object literal. */
export function value(under: string, path: readonly string[], change: (text: string) => string): Edit {
  return {
    under,
    replace(node) {
      const { parent } = node
      if (!parent || !ts.isPropertyAssignment(parent) || parent.initializer !== node) return undefined
      const keys = keysOf(parent).slice(-path.length)
      return keys.join() === path.join() ? change(node.getText()) : undefined
    },
  }
}

/** Returns the keys that lead to a property, outermost first. */
function keysOf(property: ts.PropertyAssignment): string[] {
  const keys: string[] = []
  for (let node: ts.Node = property; node; node = node.parent) {
    if (ts.isPropertyAssignment(node)) keys.unshift(nameOf(node.name))
  }
  return keys
}

/** Replaces the value of a property. `change` returns undefined for a property that stays. */
export function property(
  under: string,
  name: string,
  change: (value: ts.Expression, object: ts.ObjectLiteralExpression) => string | undefined,
): Edit {
  return {
    under,
    replace(node) {
      const { parent } = node
      if (!parent || !ts.isPropertyAssignment(parent) || parent.initializer !== node) return undefined
      return nameOf(parent.name) === name ? change(parent.initializer, parent.parent) : undefined
    },
  }
}

/** Replaces calls of a method, or of a function, which has no receiver. */
export function call(
  under: string,
  name: string,
  change: (call: ts.CallExpression, receiver: string) => string | undefined,
): Edit {
  return {
    under,
    replace(node) {
      if (!ts.isCallExpression(node)) return undefined
      const { expression } = node
      if (ts.isIdentifier(expression) && expression.text === name) return change(node, '')
      if (!ts.isPropertyAccessExpression(expression) || expression.name.text !== name) return undefined
      return change(node, expression.expression.getText())
    },
  }
}

/** Replaces every node for which `replace` returns a text. */
export function node(under: string, replace: Edit['replace']): Edit {
  return { under, replace }
}

export function isText(node: ts.Node | undefined, text: string): boolean {
  return node !== undefined && ts.isStringLiteralLike(node) && node.text === text
}

/** Tells whether an object literal has properties of these names. */
export function hasProperties(object: ts.ObjectLiteralExpression, ...names: string[]): boolean {
  const own = object.properties.flatMap(({ name }) => (name ? [nameOf(name)] : []))
  return names.every((name) => own.includes(name))
}

/** Returns the value of a property of an object literal. */
export function initializerOf(object: ts.ObjectLiteralExpression, name: string): string {
  const found = object.properties.find((property) => property.name && nameOf(property.name) === name)
  return found && ts.isPropertyAssignment(found) ? found.initializer.getText() : name
}

function nameOf(name: ts.PropertyName): string {
  return ts.isIdentifier(name) || ts.isStringLiteralLike(name) || ts.isNumericLiteral(name) ? name.text : ''
}
