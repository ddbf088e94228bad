// Asks for a verdict with the query that axios writes by default. If it were ignored, nothing would be required.
import assert from 'node:assert/strict'
import axios from 'axios'

const params = { require: ['lint', 'ci/*'] }
const { status, data } = await axios.get(process.env.URL, { params, validateStatus: null })
assert.equal(status, 422, JSON.stringify(data))
assert.match(data.error, /require\[\]/)
