import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { OBJECT_FORMATS } from '../../../domain/commit-id.ts'
import { createRepositories } from '../../../git/manage.ts'
import { VISIBILITIES } from '../../../store/tables.ts'
import { problemOf } from '../../forms/form.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, formOf, type Query } from '../../parts/query.ts'
import { requireSignIn, sessionOf, userOf } from '../../session/session-auth.ts'
import { type NewRepositoryForm, newRepositoryView } from './new-repository-view.ts'

const PATH = '/settings/repositories/new'

/** Registers `/settings/repositories/new`, where users create repositories for their owners. */
export async function newRepositoryPage(
  app: FastifyInstance,
  { store, sessionAuth, pageQueue, defaultVisibility }: PageContext,
): Promise<void> {
  app.addHook('onRequest', requireSignIn(PATH))

  const send = async (request: FastifyRequest, reply: FastifyReply, form: NewRepositoryForm) => {
    const owners = (await store.groups.administeredBy(userOf(request).id)).map(({ name }) => name)
    const content = newRepositoryView({ session: sessionOf(request), path: PATH, owners, form })
    return sendPage(reply, { title: 'New repository' }, content)
  }

  app.get<{ Querystring: Query<'owner'> }>(PATH, (request, reply) => {
    const owner = firstOf(request.query.owner) || userOf(request).name
    return send(request, reply, { owner, name: '', visibility: defaultVisibility, objectFormat: 'sha1' })
  })

  app.post(PATH, async (request, reply) => {
    const fields = formOf(request)
    const form: NewRepositoryForm = {
      owner: fields.get('owner') ?? '',
      name: (fields.get('name') ?? '').trim(),
      visibility: VISIBILITIES.find((value) => value === fields.get('visibility')) ?? 'private',
      objectFormat: OBJECT_FORMATS.find((value) => value === fields.get('object-format')) ?? 'sha1',
    }
    const transact = sessionAuth.transact(request)
    // One git at a time: as many as pages that are rendered.
    const create = () => createRepositories(transact, store, [form])
    const error = await pageQueue.render(request, () => problemOf(create))
    if (error) return send(request, reply.code(422), { ...form, error })
    const name = `${form.owner}/${form.name}`
    return sessionAuth.redirect(request, reply, `/${name}`, `Created ${name}, which is ${form.visibility}.`)
  })
}
