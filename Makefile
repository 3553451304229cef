# duplexd needs Python 3.11 or 3.12 and make; everything else is put into .venv, pinned and hashed.
#
#   make run                            start the daemon
#   make run ARGS="--set server.port=8081"
#   make run PYTHON=/opt/python3.12/bin/python3

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

UV_VERSION := 0.13.9
TORCH_VERSION := 2.13.0
VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
LOCKS := configs/locks
# One stamp a set. The test set holds the other two, and the engines' set holds the default set:
# installing a set sets those that it holds as well.
SET_DEFAULT := $(VENV)/.set-default
SET_ENGINES := $(VENV)/.set-engines
SET_TEST := $(VENV)/.set-test

# What the tests need, whatever this machine and its environment would choose for `make run`.
TEST_MODELS := whisper-base kokoro qwen2.5-coder-0.5b

ARGS ?=
PYTHON ?=

# Finds a Python that fits, or says which ones were found; prints its path.
define find_python
found=""; \
for each in $(if $(PYTHON),"$(PYTHON)",python3.12 python3.11 python3 python); do \
  version=$$("$$each" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
  case $$version in 3.11|3.12) chosen=$$each; break;; esac; \
  found="$$found $$each is $$version;"; \
done; \
if [ -z "$${chosen-}" ]; then \
  echo "error: duplexd needs Python 3.11 or 3.12 (its Mandarin text package, misaki, has none later)." >&2; \
  echo "found:$${found:- no Python at all$(if $(PYTHON), at $(PYTHON))}" >&2; \
  echo "fix:   install one of them, or name it: make run PYTHON=/path/to/python3.12" >&2; \
  exit 1; \
fi
endef

# Ends a recipe that could not install; what went wrong has been said.
define no_packages
{ echo "fix:   the first start needs the network, or an index named by PIP_INDEX_URL" >&2; exit 1; }
endef

# uv does not read pip's configuration: an index or certificate set for pip is passed on, unless
# uv has its own.
define uv_environment
pip_says() { $(PY) -m pip config get "$$1" 2>/dev/null || true; }; \
uv_toml="$${XDG_CONFIG_HOME:-$$HOME/.config}/uv/uv.toml"; \
if [ -z "$${UV_DEFAULT_INDEX-}$${UV_INDEX_URL-}" ] && [ ! -e "$$uv_toml" ] && [ ! -e /etc/uv/uv.toml ]; then \
  index="$${PIP_INDEX_URL:-$$(pip_says global.index-url)}"; \
  if [ -n "$$index" ]; then export UV_DEFAULT_INDEX="$$index"; fi; \
fi; \
cert="$${SSL_CERT_FILE:-$${PIP_CERT:-$$(pip_says global.cert)}}"; \
if [ -n "$$cert" ]; then export SSL_CERT_FILE="$$cert"; fi
endef

.PHONY: help
help: ## list the verbs
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 13
	@echo
	@echo 'ARGS="..." is handed on: make run ARGS="--help", make test ARGS="tests/asr -x"'

# A Ctrl-C is how these end: it must not look like an error of make.
run bench: export DUPLEXD_UNDER_MAKE := 1

.PHONY: run
run: $(SET_DEFAULT) ## start the daemon; sets up .venv and fetches models when needed
	@exec $(PY) run.py serve $(ARGS)

.PHONY: test
test: $(SET_TEST) ## run the tests with coverage, or a part of them without: ARGS="tests/asr -x"
	@$(PY) run.py models fetch $(TEST_MODELS)
ifeq ($(strip $(ARGS)),)
	@$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -n 2 --dist loadfile -m "not alone"
	$(PY) -m coverage run -m pytest -m alone
	@$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --fail-under=90
else
	$(PY) -m pytest $(ARGS)
endif

.PHONY: bench
bench: $(SET_DEFAULT) ## voice to voice with a daemon of its own, beside stock pipecat
	@$(PY) run.py bench v2v --peer pipecat $(ARGS)

.PHONY: lint
lint: $(SET_TEST) ## style and the direction of imports
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports

.PHONY: types
types: $(SET_TEST) ## types
	$(PY) -m pyright

.PHONY: docs
docs: $(SET_DEFAULT) ## write docs/configuration.md
	$(PY) run.py config docs

.PHONY: engines
engines: $(SET_ENGINES) ## add what FunASR and CosyVoice need: torch and their modules

.PHONY: screenshots
screenshots: $(SET_TEST) ## photograph the talk page for docs/screenshots; needs chromium
	$(PY) -m tests.browser.screenshots

.PHONY: lock
lock: $(UV) ## pin again what pyproject.toml asks for; UPGRADE=1 takes newer versions
	$(uv_environment); \
	compile="$(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-header --override $(LOCKS)/no-torch.txt $(if $(UPGRADE),--upgrade)"; \
	$$compile --output-file $(LOCKS)/default.txt && \
	$$compile $(LOCKS)/engines.in --extra cosyvoice --extra funasr --constraint $(LOCKS)/default.txt \
	  --output-file $(LOCKS)/engines.txt && \
	$$compile $(LOCKS)/engines.in --extra cosyvoice --extra funasr --extra test \
	  --constraint $(LOCKS)/engines.txt --output-file $(LOCKS)/test.txt

.PHONY: clean
clean: ## remove .venv and what the tools left; models stay
	rm -rf $(VENV) .coverage .coverage.* htmlcov .pytest_cache .ruff_cache .hypothesis \
	  .import_linter_cache build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment --------------------------------------------------------------------------

$(UV):
	@set -e; $(find_python); \
	echo "setting up $(VENV) with $$chosen ($$version)"; \
	rm -rf $(VENV); \
	"$$chosen" -m venv $(VENV) || { \
	  rm -rf $(VENV); \
	  echo "error: $$chosen cannot make a virtual environment." >&2; \
	  echo "fix:   on Debian and Ubuntu: apt install python$$version-venv" >&2; \
	  exit 1; \
	}
	@said=$$($(PY) -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION) 2>&1) || { \
	  echo "error: pip cannot install uv: $$(echo "$$said" | sed -n 's/^ERROR: //p' | tail -n 1)" >&2; \
	  $(no_packages); }

# uv, unless quiet, names each of some ninety packages.
announce = echo "installing $< into $(VENV)"

# Installs a lock. It names every package, so nothing is looked up beside it; it only adds: what
# another set or a person put there stays.
install = $(uv_environment); $(announce); \
  $(UV) pip install --quiet --python $(PY) --no-deps --require-hashes -r $< || $(no_packages)

# torch is the one package without a hash: its builds differ from machine to machine. One that is
# there already, for this machine's GPU perhaps, is left alone. It comes first: pip, unlike uv, would
# complain of what engines.in's package asks for and does not get.
install_torch = $(PY) -c 'import sys, importlib.util as u; sys.exit(not u.find_spec("torch"))' || { \
  echo "installing torch $(TORCH_VERSION) into $(VENV)"; \
  $(PY) -m pip install --quiet --disable-pip-version-check torch==$(TORCH_VERSION) || $(no_packages); }

# A stamp is a copy of the lock that was installed: a checkout that only touches the lock must not
# ask the network again.
$(SET_DEFAULT): $(LOCKS)/default.txt | $(UV)
	@cmp -s $< $@ || { $(install); }
	@cp $< $@

$(SET_ENGINES): $(LOCKS)/engines.txt $(LOCKS)/default.txt | $(UV)
	@$(install_torch)
	@cmp -s $< $@ || { $(install); }
	@cp $(LOCKS)/default.txt $(SET_DEFAULT)
	@cp $< $@

$(SET_TEST): $(LOCKS)/test.txt $(LOCKS)/engines.txt $(LOCKS)/default.txt | $(UV)
	@$(install_torch)
	@cmp -s $< $@ || { $(install); }
	@cp $(LOCKS)/default.txt $(SET_DEFAULT)
	@cp $(LOCKS)/engines.txt $(SET_ENGINES)
	@cp $< $@
