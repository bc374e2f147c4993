# Serves publications. The image holds no key: sign and publish elsewhere, and mount the folder.
FROM python:3.13-slim-bookworm AS build
WORKDIR /build
COPY pyproject.toml hatch_build.py README.md LICENSE requirements.lock ./
COPY cardsign cardsign
RUN python -m venv /opt/cardsign \
    && /opt/cardsign/bin/pip install --no-cache-dir --require-hashes -r requirements.lock \
    && /opt/cardsign/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim-bookworm
COPY --from=build /opt/cardsign /opt/cardsign
RUN useradd --system --uid 10001 --no-create-home cardsign
ENV PATH=/opt/cardsign/bin:$PATH PYTHONUNBUFFERED=1
WORKDIR /srv
USER 10001
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=3s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["cardsign"]
CMD ["serve", "public", "--bind", "0.0.0.0:8080"]
