import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'

const root = resolve(import.meta.dirname, '../..')

/** A regular expression in a source file. */
export interface FoundExpression {
  /** File and line. */
  place: string
  /** null: built at run time. */
  source: string | null
  flags: string
}

/** Returns every regular expression in the shipped code, and every pattern of a schema. */
export function findShippedExpressions(): FoundExpression[] {
  const files = globSync(
    ['{src,generated}/**/*.{ts,js}', 'clients/*/src/**/*.{ts,js}', 'clients/demo/*.ts'],
    // The generator reads only the contract, never input of a client.
    { cwd: root, exclude: ['src/codegen/**'] },
  )
  return files.sort().flatMap((file) => findExpressions(file, readFileSync(resolve(root, file), 'utf8')))
}

/**
 * Returns every regular expression in a file: literals, `RegExp(…)`, and properties named
 * `pattern`, which belong to schemas.
 */
export function findExpressions(name: string, text: string): FoundExpression[] {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true)
  const found: FoundExpression[] = []
  const add = (node: ts.Node, source: string | null, flags: string) => {
    const { line } = file.getLineAndCharacterOfPosition(node.getStart())
    found.push({ place: `${name}:${line + 1}`, source, flags })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const end = node.text.lastIndexOf('/')
      add(node, node.text.slice(1, end), node.text.slice(end + 1))
    } else if (ts.isNewExpression(node) || ts.isCallExpression(node)) {
      const [pattern, flags] = node.arguments ?? []
      const isConstructor = ts.isIdentifier(node.expression) && node.expression.text === 'RegExp'
      // A schema's pattern is found in the schema.
      if (isConstructor && !(pattern && isPropertyNamed('pattern', pattern))) {
        add(node, textOf(pattern), textOf(flags) ?? '')
      }
    } else if (ts.isPropertyAssignment(node) && /^["']?pattern["']?$/.test(node.name.getText())) {
      // Ajv compiles patterns with this flag.
      if (ts.isStringLiteralLike(node.initializer)) add(node, node.initializer.text, 'u')
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

function isPropertyNamed(name: string, node: ts.Expression): boolean {
  return ts.isPropertyAccessExpression(node) && node.name.text === name
}

function textOf(node: ts.Expression | undefined): string | null {
  return node && ts.isStringLiteralLike(node) ? node.text : null
}
