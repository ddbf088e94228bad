#!/usr/bin/env node
import { setDefaultAutoSelectFamilyAttemptTimeout } from 'node:net'
import { execute } from './execute.ts'

/**
 * Milliseconds after which the next address of a name is tried. After Node's 250, a connection over
 * a slow IPv6 or VPN is given up before it is there, and so are all others.
 */
const NEXT_ADDRESS_AFTER = 2_500

setDefaultAutoSelectFamilyAttemptTimeout(NEXT_ADDRESS_AFTER)
// A closed pipe must not change how a build ends.
process.stdout.on('error', () => {})
process.stderr.on('error', () => {})
const exitCode = await execute(process.argv.slice(2), process.env, process)
// A connection that is still being opened would keep the process alive.
process.stdout.write('', () => process.exit(exitCode))
