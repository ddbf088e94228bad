import type { FastifyRequest } from 'fastify'
import { OBJECT_FORMATS } from '../../../domain/commit-id.ts'
import { createGitQueue } from '../../../git/history/cached-reads.ts'
import { createRepositories } from '../../../repositories/create.ts'
import { VISIBILITIES } from '../../../store/tables.ts'
import { gitClient } from '../../finding/find-repository.ts'
import { sendPage } from '../../layout/layout.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import { firstOf, type Query } from '../../routing/query.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { type NewRepositoryForm, newRepositoryView } from './new-repository-view.ts'

interface Route {
  Querystring: Query<'owner'>
}

const PATH = '/settings/repositories/new'

/** Registers `/settings/repositories/new`, where users create repositories for their owners. */
export async function newRepositoryPage(
  pages: Pages,
  { store, defaultVisibility }: PageContext,
): Promise<void> {
  // git and the disk take long: no page waits for them.
  const queue = createGitQueue(1)
  pages.requireSignIn(PATH)

  pages.form(PATH, {
    find: async (request: FastifyRequest<Route>) => userOf(request),

    initial(request, user) {
      const owner = firstOf(request.query.owner) || user.name
      return { owner, name: '', visibility: defaultVisibility, objectFormat: 'sha1' }
    },

    async send(request: FastifyRequest<Route>, reply, user, form: NewRepositoryForm) {
      const owners = (await store.groups.administeredBy(user.id)).map(({ name }) => name)
      const content = newRepositoryView({ session: sessionOf(request), path: PATH, owners, form })
      return sendPage(reply, { title: 'New repository' }, content)
    },

    refused: (error, fields) => ({ ...readForm(fields), error }),
    async submit({ request, form: fields, transact }) {
      const form = readForm(fields)
      await queue.run(gitClient(request), () => createRepositories(transact, store, [form]))
      const name = `${form.owner}/${form.name}`
      return { path: `/${name}`, text: `Created ${name}, which is ${form.visibility}.` }
    },
  })
}

function readForm(fields: URLSearchParams): NewRepositoryForm {
  return {
    owner: fields.get('owner') ?? '',
    name: (fields.get('name') ?? '').trim(),
    visibility: VISIBILITIES.find((value) => value === fields.get('visibility')) ?? 'private',
    objectFormat: OBJECT_FORMATS.find((value) => value === fields.get('object-format')) ?? 'sha1',
  }
}
