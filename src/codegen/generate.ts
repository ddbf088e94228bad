import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import openapiTypescript, { astToString } from 'openapi-typescript'
import { emptyWhenMissing } from '../util/expected-errors.ts'
import { emitClient } from './emit/client.ts'
import { emitHandlers } from './emit/handlers.ts'
import { emitOperations } from './emit/operations.ts'
import { emitSchemas } from './emit/server-schema.ts'
import { readSpec } from './read/read-spec.ts'

const HEADER = '// Written by `npm run generate` from openapi.yaml. Do not edit.\n\n'

/** Path of the contract, and folders of the generated files of the server and of the client. */
export interface GenerateOptions {
  spec: string
  server: string
  client: string
}

/**
 * Returns the text of every generated file by path. The same contract always gives the same bytes.
 */
export async function generate(options: GenerateOptions): Promise<Map<string, string>> {
  const spec = await readSpec(options.spec)
  const json = JSON.stringify(spec.document, null, 2)
  const schema = HEADER + astToString(await openapiTypescript(json, { defaultNonNullable: false }))
  return new Map([
    [join(options.server, 'openapi.json'), `${json}\n`],
    [join(options.server, 'schema.ts'), schema],
    [join(options.server, 'schemas.ts'), HEADER + emitSchemas(spec)],
    [join(options.server, 'operations.ts'), HEADER + emitOperations(spec)],
    [join(options.server, 'handlers.ts'), HEADER + emitHandlers(spec)],
    [join(options.client, 'schema.ts'), schema],
    [join(options.client, 'operations.ts'), HEADER + emitClient(spec)],
  ])
}

/** Writes the generated files and removes everything else from their folders. */
export async function writeGenerated(options: GenerateOptions): Promise<void> {
  const files = await generate(options)
  for (const folder of [options.server, options.client]) await mkdir(folder, { recursive: true })
  for (const path of await findObsolete(options, files)) await rm(path, { recursive: true })
  for (const [path, text] of files) await writeFile(path, text)
}

/**
 * Returns the paths of generated files that are missing or out of date, and of other files in their
 * folders.
 */
export async function findDrift(options: GenerateOptions): Promise<string[]> {
  const files = await generate(options)
  const drift = await findObsolete(options, files)
  for (const [path, text] of files) {
    const current = await readFile(path, 'utf8').catch(emptyWhenMissing)
    if (current !== text) drift.push(path)
  }
  return drift
}

async function findObsolete(options: GenerateOptions, files: Map<string, string>): Promise<string[]> {
  const present: string[] = []
  for (const folder of [options.server, options.client]) {
    for (const name of await readdir(folder).catch(emptyWhenMissing)) present.push(join(folder, name))
  }
  return present.filter((path) => !files.has(path))
}
