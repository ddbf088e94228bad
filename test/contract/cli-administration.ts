import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { git, importCommits } from '../helpers/git.ts'
import type { Administration, Repository } from './fixture.ts'
import { list, object, text } from './json.ts'

const run = promisify(execFile)
const program = resolve(import.meta.dirname, '../../src/cli/main.ts')

/**
 * Administers an instance with the command line, on the database that this process's environment
 * configures.
 */
export function cliAdministration(): Administration {
  const cli = async (...args: string[]): Promise<string> => {
    const { stdout } = await run(process.execPath, [program, ...args])
    return stdout.trim()
  }
  return {
    async createUser(name) {
      await cli('user', 'create', name)
    },
    async createToken(user, { scopes = true, expired = false } = {}) {
      const name = `contract ${randomBytes(8).toString('hex')}`
      const options = [...(scopes ? [] : ['--no-scopes']), ...(expired ? ['--expires', '1s'] : [])]
      const secret = await cli('token', 'create', user, '--name', name, ...options)
      if (expired) await setTimeout(1_000)
      return { id: await idOf(user, name), secret, user }
    },
    async revoke({ id }) {
      if (id !== null) await cli('token', 'revoke', id)
    },
    async createRepository(fullName, { private: hidden = false, commits, objectFormat = 'sha1' }) {
      const [owner = '', name = ''] = fullName.split('/')
      const visibility = hidden ? ['--private'] : []
      const path = await cli('repo', 'create', fullName, '--object-format', objectFormat, ...visibility)
      const ids = importCommits(path, commits)
      git(path, 'update-ref', 'refs/heads/main', ids.at(-1) ?? '')
      return { owner, name, path, commits: ids }
    },
    async setAccess(repository, user, permission) {
      await cli('repo', 'access', nameOf(repository), user, permission ?? 'none')
    },
    async setVisibility(repository, visibility) {
      await cli('repo', 'visibility', nameOf(repository), visibility)
    },
  }

  async function idOf(user: string, name: string): Promise<string> {
    const tokens = list(JSON.parse(await cli('token', 'list', user, '--json')))
    const found = tokens.map((token) => object(token, 'a token')).find((token) => token.name === name)
    return text(found?.id, `the id of the token ${name}`)
  }
}

function nameOf({ owner, name }: Repository): string {
  return `${owner}/${name}`
}
